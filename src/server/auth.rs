//! Who may connect: a capability token, or a signed bearer token (`protocol/connection.md`, section 7).

use std::path::PathBuf;

use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::Value;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The shortest secret that signs tokens.
const MIN_SECRET_BYTES: usize = 32;

/// What an upgrade must show.
#[derive(Clone)]
pub enum Auth {
    /// Nothing.
    Open,
    /// A token with this hash.
    Capability([u8; 32]),
    /// A token signed with this secret.
    Signed(Signed),
}

/// How signed tokens are checked.
#[derive(Clone)]
pub struct Signed {
    secret: Vec<u8>,
    issuer: Option<String>,
    audience: Option<String>,
    max_clock_skew_seconds: i64,
}

/// The flags as given.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "each is the flag of its name")]
pub struct AuthFlags {
    pub ws_auth: Option<String>,
    pub ws_token_file: Option<PathBuf>,
    pub ws_token_sha256: Option<String>,
    pub ws_shared_secret_file: Option<PathBuf>,
    pub ws_issuer: Option<String>,
    pub ws_audience: Option<String>,
    pub ws_max_clock_skew_seconds: Option<i64>,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Secrets are not for logs.
        out.write_str(match self {
            Auth::Open => "Open",
            Auth::Capability(_) => "Capability",
            Auth::Signed(_) => "Signed",
        })
    }
}

impl Auth {
    /// What the flags ask for.
    ///
    /// # Errors
    /// Flags that do not go together, or a file that cannot be used.
    pub fn from_flags(flags: &AuthFlags) -> Result<Auth, String> {
        let token = flags.ws_token_file.is_some() || flags.ws_token_sha256.is_some();
        let signed = flags.ws_shared_secret_file.is_some()
            || flags.ws_issuer.is_some()
            || flags.ws_audience.is_some()
            || flags.ws_max_clock_skew_seconds.is_some();
        match flags.ws_auth.as_deref() {
            None if token || signed => {
                Err("websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`".into())
            }
            None => Ok(Auth::Open),
            Some("capability-token") if signed => Err("`--ws-shared-secret-file`, `--ws-issuer`, `--ws-audience`, and \
                 `--ws-max-clock-skew-seconds` require `--ws-auth signed-bearer-token`"
                .into()),
            Some("capability-token") => capability(flags),
            Some("signed-bearer-token") if token => Err("`--ws-token-file` and `--ws-token-sha256` require `--ws-auth \
                 capability-token`, not `signed-bearer-token`"
                .into()),
            Some("signed-bearer-token") => signed_bearer(flags),
            Some(other) => Err(format!(
                "unknown `--ws-auth` kind `{other}`; expected `capability-token` or `signed-bearer-token`"
            )),
        }
    }

    /// Check the `Authorization` header of an upgrade.
    ///
    /// # Errors
    /// The body of the refusal.
    pub fn check(&self, header: Option<&str>, now_s: i64) -> Result<(), &'static str> {
        if matches!(self, Auth::Open) {
            return Ok(());
        }
        let header = header.ok_or("missing websocket bearer token")?;
        let (scheme, token) = header.trim().split_once(' ').ok_or("invalid authorization header")?;
        let token = token.trim();
        if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
            return Err("invalid authorization header");
        }
        match self {
            Auth::Open => Ok(()),
            Auth::Capability(hash) => {
                let given = Sha256::digest(token.as_bytes());
                if bool::from(given.as_slice().ct_eq(hash)) {
                    Ok(())
                } else {
                    Err("invalid websocket bearer token")
                }
            }
            Auth::Signed(signed) => signed.check(token, now_s),
        }
    }
}

impl Signed {
    fn check(&self, token: &str, now_s: i64) -> Result<(), &'static str> {
        const INVALID: &str = "invalid websocket jwt";
        let mut validation = Validation::new(Algorithm::HS256);
        // Times, issuer and audience are checked below, each with its own text.
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_aud = false;
        let key = DecodingKey::from_secret(&self.secret).map_err(|_| INVALID)?;
        let claims = jsonwebtoken::decode::<Value>(token, &key, &validation).map_err(|_| INVALID)?.claims;
        let skew = self.max_clock_skew_seconds;
        let expires = claims.get("exp").and_then(Value::as_i64).ok_or(INVALID)?;
        if now_s > expires.saturating_add(skew) {
            return Err("expired websocket jwt");
        }
        if let Some(from) = claims.get("nbf") {
            let from = from.as_i64().ok_or(INVALID)?;
            if now_s < from.saturating_sub(skew) {
                return Err("websocket jwt is not valid yet");
            }
        }
        if let Some(issuer) = &self.issuer
            && claims.get("iss").and_then(Value::as_str) != Some(issuer)
        {
            return Err("websocket jwt issuer mismatch");
        }
        if let Some(audience) = &self.audience {
            let given = claims.get("aud");
            let fits = match given {
                Some(Value::String(one)) => one == audience,
                Some(Value::Array(many)) => many.iter().any(|one| one == audience.as_str()),
                _ => false,
            };
            if !fits {
                return Err("websocket jwt audience mismatch");
            }
        }
        Ok(())
    }
}

fn capability(flags: &AuthFlags) -> Result<Auth, String> {
    match (&flags.ws_token_file, &flags.ws_token_sha256) {
        (Some(_), Some(_)) => Err("`--ws-token-file` and `--ws-token-sha256` are mutually exclusive".into()),
        (None, None) => Err(
            "`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth capability-token` is set"
                .into(),
        ),
        (Some(file), None) => Ok(Auth::Capability(Sha256::digest(secret(file)?.as_bytes()).into())),
        (None, Some(hex)) => parse_hex(hex)
            .map(Auth::Capability)
            .ok_or_else(|| "--ws-token-sha256 must be a 64-character hex SHA-256 digest".into()),
    }
}

fn signed_bearer(flags: &AuthFlags) -> Result<Auth, String> {
    let file = flags
        .ws_shared_secret_file
        .as_ref()
        .ok_or("`--ws-shared-secret-file` is required when `--ws-auth signed-bearer-token` is set")?;
    let secret = secret(file)?;
    if secret.len() < MIN_SECRET_BYTES {
        return Err(format!("signed websocket bearer secret {} must be at least 32 bytes", file.display()));
    }
    Ok(Auth::Signed(Signed {
        secret: secret.into_bytes(),
        issuer: flags.ws_issuer.clone(),
        audience: flags.ws_audience.clone(),
        max_clock_skew_seconds: flags.ws_max_clock_skew_seconds.unwrap_or(30).max(0),
    }))
}

fn secret(file: &std::path::Path) -> Result<String, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("failed to read websocket auth secret {}: {error}", file.display()))?;
    let text = text.trim();
    if text.is_empty() {
        return Err(format!("websocket auth secret {} must not be empty", file.display()));
    }
    Ok(text.to_owned())
}

fn parse_hex(hex: &str) -> Option<[u8; 32]> {
    let hex = hex.trim();
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    let mut out = [0; 32];
    for (at, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(at * 2..at * 2 + 2)?, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::json;

    use super::*;

    const NOW_S: i64 = 1_000_000;
    const SECRET: &str = "a secret of at least thirty-two bytes";

    fn token(algorithm: Algorithm, secret: &str, claims: &Value) -> String {
        let key = EncodingKey::from_secret(secret.as_bytes()).unwrap();
        encode(&Header::new(algorithm), claims, &key).unwrap()
    }

    fn check(auth: &Auth, header: Option<&str>, expected: Result<(), &str>) {
        assert_eq!(auth.check(header, NOW_S), expected, "{header:?}");
    }

    /// Tokens of these claims, for an issuer `us` and an audience `here`.
    fn check_claims(claims: &Value, expected: Result<(), &str>) {
        let auth = Auth::Signed(Signed {
            secret: SECRET.into(),
            issuer: Some("us".to_owned()),
            audience: Some("here".to_owned()),
            max_clock_skew_seconds: 30,
        });
        let header = format!("Bearer {}", token(Algorithm::HS256, SECRET, claims));
        assert_eq!(auth.check(Some(&header), NOW_S), expected, "{claims}");
    }

    #[test]
    fn a_capability_token_is_the_bearer_itself() {
        let auth = Auth::Capability(Sha256::digest(b"open-sesame").into());
        check(&auth, None, Err("missing websocket bearer token"));
        for header in ["open-sesame", "Basic open-sesame", "Bearer", "Bearer  ", ""] {
            check(&auth, Some(header), Err("invalid authorization header"));
        }
        for header in ["Bearer wrong", "Bearer open-sesame-and-more", "Bearer Open-Sesame"] {
            check(&auth, Some(header), Err("invalid websocket bearer token"));
        }
        for header in ["Bearer open-sesame", "bearer open-sesame", "BEARER   open-sesame "] {
            check(&auth, Some(header), Ok(()));
        }
        check(&Auth::Open, None, Ok(()));
    }

    #[test]
    fn claims_are_checked_with_the_clock_skew_allowed() {
        let good = json!({"exp": NOW_S + 60, "iss": "us", "aud": "here"});
        let with = |name: &str, value: Value| {
            let mut claims = good.clone();
            claims[name] = value;
            claims
        };
        check_claims(&good, Ok(()));
        check_claims(&with("exp", json!(NOW_S - 30)), Ok(()));
        check_claims(&with("exp", json!(NOW_S - 31)), Err("expired websocket jwt"));
        for exp in [json!("soon"), json!(null), json!(1.5)] {
            check_claims(&with("exp", exp), Err("invalid websocket jwt"));
        }
        check_claims(&with("nbf", json!(NOW_S + 30)), Ok(()));
        check_claims(&with("nbf", json!(NOW_S + 31)), Err("websocket jwt is not valid yet"));
        check_claims(&with("iss", json!("them")), Err("websocket jwt issuer mismatch"));
        check_claims(&with("iss", json!(null)), Err("websocket jwt issuer mismatch"));
        check_claims(&with("aud", json!(["there", "here"])), Ok(()));
        check_claims(&with("aud", json!(["there"])), Err("websocket jwt audience mismatch"));
        check_claims(&json!({"exp": NOW_S + 60, "iss": "us"}), Err("websocket jwt audience mismatch"));
        check_claims(&json!({"iss": "us", "aud": "here"}), Err("invalid websocket jwt"));
    }

    #[test]
    fn tokens_of_another_form_secret_or_algorithm_are_invalid() {
        let auth = Auth::Signed(Signed {
            secret: SECRET.into(),
            issuer: None,
            audience: None,
            max_clock_skew_seconds: 30,
        });
        let claims = json!({"exp": NOW_S + 60});
        let bearer = |token: String| format!("Bearer {token}");
        check(&auth, Some(&bearer(token(Algorithm::HS256, SECRET, &claims))), Ok(()));
        // {"alg":"none","typ":"JWT"} . {"exp":1000060} . nothing
        let unsigned = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJleHAiOjEwMDAwNjB9.".to_owned();
        for wrong in [
            token(Algorithm::HS512, SECRET, &claims),
            token(Algorithm::HS256, "another secret of thirty-two bytes or more", &claims),
            unsigned,
            "a.b.c".to_owned(),
            "text".to_owned(),
        ] {
            check(&auth, Some(&bearer(wrong)), Err("invalid websocket jwt"));
        }
    }
}
