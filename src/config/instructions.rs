//! Instruction files: `AGENTS.md` of the home and of the project (`protocol/config.md`, section 4).

use std::path::{Path, PathBuf};

use super::{Config, Home};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The files used, in order.
    pub sources: Vec<PathBuf>,
    /// The message for the model.
    pub text: Option<String>,
}

/// Find and read the instruction files that hold for a folder.
pub fn discover(config: &Config, home: &Home, cwd: &Path) -> Instructions {
    let mut sources = Vec::new();
    let global = first_of(home.path(), &["AGENTS.override.md", "AGENTS.md"]).map(|(path, text)| {
        sources.push(path);
        text
    });
    let project = project_text(config, cwd, &mut sources);
    let heading = if project.is_empty() {
        "# AGENTS.md instructions".to_owned()
    } else {
        format!("# AGENTS.md instructions for {}", cwd.display())
    };
    let body = match (global, project.is_empty()) {
        (None, true) => return Instructions { sources, text: None },
        (Some(global), true) => global,
        (None, false) => project,
        (Some(global), false) => format!("{global}\n\n--- project-doc ---\n\n{project}"),
    };
    Instructions { sources, text: Some(format!("{heading}\n\n<INSTRUCTIONS>\n{body}\n</INSTRUCTIONS>")) }
}

/// The nearest ancestor with a root marker, else the folder itself.
pub fn project_root(config: &Config, cwd: &Path) -> PathBuf {
    let marked = |dir: &&Path| config.project_root_markers.iter().any(|marker| dir.join(marker).exists());
    cwd.ancestors().find(marked).unwrap_or(cwd).to_owned()
}

/// The project's files from its root down, within the limit: the file that crosses it is cut, later ones are left out.
fn project_text(config: &Config, cwd: &Path, sources: &mut Vec<PathBuf>) -> String {
    let root = project_root(config, cwd);
    let mut names = vec!["AGENTS.override.md", "AGENTS.md"];
    names.extend(config.project_doc_fallback_filenames.iter().map(String::as_str));
    let mut dirs: Vec<&Path> = cwd.ancestors().take_while(|dir| dir.starts_with(&root)).collect();
    dirs.reverse();
    let mut left = config.project_doc_max_bytes;
    let mut texts = Vec::new();
    for dir in dirs {
        if left == 0 {
            break;
        }
        if let Some((path, text)) = first_of(dir, &names) {
            let mut end = text.len().min(left);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            left -= end;
            texts.push(text[..end].to_owned());
            sources.push(path);
        }
    }
    texts.join("\n\n")
}

fn first_of(dir: &Path, names: &[&str]) -> Option<(PathBuf, String)> {
    names.iter().map(|name| dir.join(name)).find_map(|path| {
        let text = std::fs::read_to_string(&path).ok()?;
        Some((path, text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_from_the_root_down_within_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let (root, sub) = (dir.path().join("p"), dir.path().join("p/a/b"));
        std::fs::create_dir_all(&sub).unwrap();
        std::fs::create_dir(root.join(".git")).unwrap();
        std::fs::write(root.join("AGENTS.md"), "root").unwrap();
        std::fs::write(root.join("a/AGENTS.override.md"), "middle").unwrap();
        std::fs::write(sub.join("AGENTS.md"), "deep").unwrap();
        let home = Home::find(Some(&dir.path().join("home"))).unwrap();
        let config = Config { project_doc_max_bytes: 7, ..Config::default() };
        let found = discover(&config, &home, &sub);
        assert_eq!(found.sources, [root.join("AGENTS.md"), root.join("a/AGENTS.override.md")]);
        assert!(found.text.unwrap().contains("root\n\nmid\n</INSTRUCTIONS>"));
        assert_eq!(
            discover(&Config { project_doc_max_bytes: 0, ..config }, &home, &sub),
            Instructions::default()
        );
    }
}
