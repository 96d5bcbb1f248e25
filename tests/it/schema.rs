//! The schema of what we offer, held against the protocol's own (`$THREADKEEP_SHARED/protocol/schema.json`, or
//! `../shared` beside the repository; where neither is there, only the schema itself is looked at).
//!
//! What clients send must be accepted, and what they get must have all they may rely on; see [`Side`].

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};

#[test]
fn schema_names_a_definition_for_everything_offered() {
    let ours = our_schema();
    let defined = |name: &Value| ours["definitions"].get(name.as_str().unwrap_or_default()).is_some();
    for (name, method) in members(&ours["methods"]) {
        assert!(method["params"].is_null() || defined(&method["params"]), "params of {name}");
        assert!(defined(&method["result"]), "result of {name}");
    }
    for (name, params) in members(&ours["notifications"]) {
        assert!(defined(params), "{name}");
    }
    for (name, request) in members(&ours["serverRequests"]) {
        assert!(defined(&request["params"]) && defined(&request["result"]), "{name}");
    }
    assert!(ours["methods"].get("thread/start").is_some());
}

#[test]
fn every_type_agrees_with_the_protocols_schema() {
    let Some(theirs) = their_schema() else {
        println!("no protocol/schema.json beside the repository: nothing to compare with");
        return;
    };
    let ours = our_schema();
    let mut comparison = Comparison::new(&ours, &theirs);
    for (name, method) in members(&ours["methods"]) {
        let Some(expected) = theirs["methods"].get(name) else {
            // Methods beyond the peer's have names of their own.
            continue;
        };
        if method["stability"] != expected["stability"] {
            comparison.note(name, format!("stability {}", method["stability"]));
        }
        comparison.named(name, &method["params"], &expected["params"], Side::Client);
        // Of an empty result the protocol's schema may name no type.
        if !expected["result"].is_null() {
            comparison.named(name, &method["result"], &expected["result"], Side::Server);
        }
    }
    for (name, params) in members(&ours["notifications"]) {
        comparison.named(name, params, &theirs["notifications"][name], Side::Server);
    }
    for (name, request) in members(&ours["serverRequests"]) {
        let expected = &theirs["serverRequests"][name];
        comparison.named(name, &request["params"], &expected["params"], Side::Server);
        comparison.named(name, &request["result"], &expected["result"], Side::Client);
    }
    assert!(comparison.found.is_empty(), "{:#?}", comparison.found);
}

#[test]
fn comparison_sees_what_is_taken_away() {
    let ours = our_schema();
    let differences = |place: &str, change: fn(&mut Value)| {
        let mut altered = ours.clone();
        change(altered.pointer_mut(&format!("/definitions/{place}")).unwrap());
        let mut comparison = Comparison::new(&altered, &ours);
        for (name, method) in members(&ours["methods"]) {
            comparison.named(name, &method["params"], &method["params"], Side::Client);
            comparison.named(name, &method["result"], &method["result"], Side::Server);
        }
        comparison.found.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(differences("Turn", |_| {}), [""; 0]);
    assert_eq!(differences("Turn/required", |names| *names = json!(["id"])).len(), 8);
    let narrowed =
        differences("ThreadListParams/properties/limit", |limit| *limit = json!({"type": "integer"}));
    assert_eq!(narrowed, ["ThreadListParams.limit: Client: [\"null\"] is not in both"]);
    let word = differences("SandboxMode/oneOf", |modes| drop(modes.as_array_mut().unwrap().pop()));
    assert_eq!(
        word,
        ["Fork", "Resume", "Start"]
            .map(|who| format!("Thread{who}Params.sandbox: words [\"danger-full-access\"]"))
    );
    let variant = differences("UserInput/oneOf", |parts| drop(parts.as_array_mut().unwrap().pop()));
    assert_eq!(variant, ["UserInput: variant type=mention only theirs"]);
}

fn our_schema() -> Value {
    let out = tempfile::tempdir().unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_threadkeep"))
        .args(["schema", "--out"])
        .arg(out.path())
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    read(&out.path().join("schema.json"))
}

fn their_schema() -> Option<Value> {
    let shared = std::env::var_os("THREADKEEP_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let path = shared.join("protocol/schema.json");
    path.exists().then(|| read(&path))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn members(object: &Value) -> &Map<String, Value> {
    object.as_object().unwrap()
}

/// Who makes a value. A client's may not be asked for more than the schema asks for; a server's may not promise less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    Client,
    Server,
}

/// The walk through both schemas at once.
struct Comparison<'a> {
    ours: &'a Value,
    theirs: &'a Value,
    /// Pairs of definitions that were compared already.
    seen: HashSet<(String, String, Side)>,
    found: BTreeSet<String>,
}

impl<'a> Comparison<'a> {
    fn new(ours: &'a Value, theirs: &'a Value) -> Comparison<'a> {
        Comparison { ours, theirs, seen: HashSet::new(), found: BTreeSet::new() }
    }

    fn note(&mut self, place: &str, what: String) {
        self.found.insert(format!("{place}: {what}"));
    }

    fn named(&mut self, place: &str, ours: &Value, theirs: &Value, side: Side) {
        match (ours.as_str(), theirs.as_str()) {
            (Some(ours), Some(theirs)) => self.definition(ours, theirs, side),
            (None, None) => {}
            _ => self.note(place, format!("{ours} instead of {theirs}")),
        }
    }

    fn definition(&mut self, ours: &str, theirs: &str, side: Side) {
        if self.seen.insert((ours.to_owned(), theirs.to_owned(), side)) {
            let (our_schema, their_schema) =
                (&self.ours["definitions"][ours], &self.theirs["definitions"][theirs]);
            self.shapes(
                theirs,
                &Shape::of(our_schema, self.ours),
                &Shape::of(their_schema, self.theirs),
                side,
            );
        }
    }

    fn schemas(&mut self, place: &str, ours: &Value, theirs: &Value, side: Side) {
        match (reference(ours), reference(theirs)) {
            (Some(ours), Some(theirs)) => self.definition(ours, theirs, side),
            _ => self.shapes(place, &Shape::of(ours, self.ours), &Shape::of(theirs, self.theirs), side),
        }
    }

    fn shapes(&mut self, place: &str, ours: &Shape, theirs: &Shape, side: Side) {
        if theirs.anything || ours.anything && ours.kinds.is_empty() {
            return;
        }
        let (wide, narrow) = match side {
            Side::Client => (ours, theirs),
            Side::Server => (theirs, ours),
        };
        let missing: Vec<_> = narrow.kinds.iter().filter(|kind| !wide.takes(kind)).collect();
        if !missing.is_empty() && !ours.anything {
            self.note(place, format!("{side:?}: {missing:?} is not in both"));
        }
        if let (Some(our_words), Some(their_words)) = (&ours.words, &theirs.words)
            && our_words != their_words
        {
            let differ: Vec<_> = our_words.symmetric_difference(their_words).collect();
            self.note(place, format!("words {differ:?}"));
        }
        if let (Some(ours), Some(theirs)) = (&ours.items, &theirs.items) {
            self.schemas(&format!("{place}[]"), ours, theirs, side);
        }
        self.objects(place, ours, theirs, side);
    }

    fn objects(&mut self, place: &str, ours: &Shape, theirs: &Shape, side: Side) {
        if let ([ours], [theirs]) = (&ours.objects[..], &theirs.objects[..]) {
            return self.object(place, ours, theirs, side);
        }
        let (our_tags, their_tags) = (by_tag(&ours.objects), by_tag(&theirs.objects));
        for tag in their_tags.keys().chain(our_tags.keys()).collect::<BTreeSet<_>>() {
            match (our_tags.get(tag), their_tags.get(tag)) {
                (Some(ours), Some(theirs)) => self.object(&format!("{place}({tag})"), ours, theirs, side),
                (ours, _) => {
                    let whose = if ours.is_some() { "only ours" } else { "only theirs" };
                    self.note(place, format!("variant {tag} {whose}"));
                }
            }
        }
    }

    fn object(&mut self, place: &str, ours: &Object, theirs: &Object, side: Side) {
        for name in theirs.required.difference(&ours.required) {
            self.note(place, format!("{side:?}: {name} must be required"));
        }
        if side == Side::Client {
            for name in ours.required.difference(&theirs.required) {
                self.note(place, format!("{side:?}: {name} must not be required"));
            }
        }
        for (name, schema) in &theirs.properties {
            if let Some(our_schema) = ours.properties.get(name) {
                self.schemas(&format!("{place}.{name}"), our_schema, schema, side);
            } else if side == Side::Client {
                self.note(place, format!("{name} is not read"));
            }
        }
        if side == Side::Server {
            for name in ours.properties.keys().filter(|name| !theirs.properties.contains_key(*name)) {
                self.note(place, format!("{name} is not in the schema"));
            }
        }
        if let (Some(ours), Some(theirs)) = (&ours.others, &theirs.others) {
            self.schemas(&format!("{place}.*"), ours, theirs, side);
        }
    }
}

/// What values a schema takes, with all its alternatives beside each other.
#[derive(Default)]
struct Shape {
    /// No limit at all.
    anything: bool,
    /// JSON types, `null` among them.
    kinds: BTreeSet<String>,
    /// The strings that are taken, when they are a closed set.
    words: Option<BTreeSet<String>>,
    items: Option<Value>,
    objects: Vec<Object>,
}

#[derive(Clone, Default)]
struct Object {
    properties: BTreeMap<String, Value>,
    required: BTreeSet<String>,
    /// The schema of members without a name of their own.
    others: Option<Value>,
}

impl Shape {
    fn of(schema: &Value, root: &Value) -> Shape {
        let mut shape = Shape::default();
        let mut free_text = false;
        for branch in branches(schema, root) {
            shape.add(&branch, root, &mut free_text);
        }
        if free_text {
            shape.words = None;
        }
        shape
    }

    fn add(&mut self, branch: &Value, root: &Value, free_text: &mut bool) {
        let words = words(branch);
        let kinds = match &branch["type"] {
            Value::String(kind) => vec![kind.clone()],
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ if !words.is_empty() => vec!["string".to_owned()],
            _ if branch.get("allOf").is_some() => vec!["object".to_owned()],
            _ => {
                self.anything = true;
                return;
            }
        };
        for kind in &kinds {
            match kind.as_str() {
                "string" if words.is_empty() => *free_text = true,
                "string" => self.words.get_or_insert_default().extend(words.iter().cloned()),
                "array" => self.items = branch.get("items").cloned(),
                "object" => self.objects.push(Object::of(branch, root)),
                _ => {}
            }
        }
        self.kinds.extend(kinds);
    }

    fn takes(&self, kind: &str) -> bool {
        self.kinds.contains(kind) || kind == "integer" && self.kinds.contains("number")
    }
}

impl Object {
    fn of(schema: &Value, root: &Value) -> Object {
        let mut object = Object::default();
        for part in schema["allOf"].as_array().into_iter().flatten() {
            for branch in branches(part, root) {
                let part = Object::of(&branch, root);
                object.properties.extend(part.properties);
                object.required.extend(part.required);
            }
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            object.properties.insert(name.clone(), property.clone());
        }
        let required = schema["required"].as_array().into_iter().flatten();
        object.required.extend(required.filter_map(Value::as_str).map(str::to_owned));
        if let Some(alternatives) = alternatives(schema) {
            let parts: Vec<_> = alternatives.iter().map(|part| Object::of(part, root)).collect();
            // One of several must be there: told as a required member `a|b`.
            let any: BTreeSet<String> = parts.iter().flat_map(|part| part.required.clone()).collect();
            object.required.insert(any.into_iter().collect::<Vec<_>>().join("|"));
            object.properties.extend(parts.into_iter().flat_map(|part| part.properties));
        }
        object.others = schema.get("additionalProperties").filter(|others| others.is_object()).cloned();
        object
    }

    /// What tells this variant of a union from the others: the one word that a member may have, or its only member.
    fn tag(&self) -> Option<String> {
        let fixed = self.properties.iter().find_map(|(name, schema)| match &words(schema)[..] {
            [word] => Some(format!("{name}={word}")),
            _ => None,
        });
        fixed.or_else(|| match self.properties.len() {
            1 => self.properties.keys().next().cloned(),
            _ => None,
        })
    }
}

fn by_tag(objects: &[Object]) -> BTreeMap<String, Object> {
    objects.iter().filter_map(|object| Some((object.tag()?, object.clone()))).collect()
}

/// The alternatives of a schema, references followed.
fn branches(schema: &Value, root: &Value) -> Vec<Value> {
    if let Some(name) = reference(schema) {
        return branches(&root["definitions"][name], root);
    }
    let Some(parts) = alternatives(schema) else {
        return vec![schema.clone()];
    };
    let Some(properties) = schema["properties"].as_object() else {
        return parts.iter().flat_map(|part| branches(part, root)).collect();
    };
    if properties.values().any(|property| words(property).len() == 1) {
        // One variant, in several forms: see `Object::of`.
        return vec![schema.clone()];
    }
    let mut common = members(schema).clone();
    common.retain(|name, _| name != "anyOf" && name != "oneOf");
    parts.iter().map(|part| json!({"type": "object", "allOf": [common, part]})).collect()
}

fn alternatives(schema: &Value) -> Option<&Vec<Value>> {
    schema.get("anyOf").or_else(|| schema.get("oneOf"))?.as_array()
}

/// The definition that a schema is only another name of.
fn reference(schema: &Value) -> Option<&str> {
    let direct = match schema["allOf"].as_array().map(Vec::as_slice) {
        Some([only]) if schema.get("properties").is_none() => only,
        _ => schema,
    };
    if direct.get("properties").is_some() {
        return None;
    }
    direct["$ref"].as_str()?.strip_prefix("#/definitions/")
}

fn words(schema: &Value) -> Vec<String> {
    let one = schema.get("const").into_iter();
    let several = schema["enum"].as_array().into_iter().flatten();
    one.chain(several).filter_map(Value::as_str).map(str::to_owned).collect()
}
