//! Patches from text to files.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use proptest::prelude::*;

use super::{Change, ChangeKind, apply::apply, parse::parse, success_text, verify::verify};

fn changes(folder: &Path, body: &str) -> Result<Vec<Change>, String> {
    let patch =
        parse(&format!("*** Begin Patch\n{body}\n*** End Patch")).map_err(|error| error.to_string())?;
    verify(&patch, folder).map_err(|error| error.to_string())
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            found.extend(files(&path).into_iter().map(|(inner, text)| (format!("{name}/{inner}"), text)));
        } else {
            found.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    found
}

fn of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
}

const PATCH: &str = "*** Add File: added.txt\n+new line\n*** Delete File: gone.txt\n*** Update File: moved.txt\n\
                     *** Move to: sub/moved.txt\n@@\n-old\n+new\n*** Update File: there.txt\n@@\n l1\n-l2\n+L2\n l3";

fn folder_of_patch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("gone.txt", "bye\n"), ("moved.txt", "old\nrest\n"), ("there.txt", "l1\nl2\nl3\n")] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn a_patch_adds_deletes_moves_and_updates() {
    let folder = folder_of_patch();
    let changes = changes(folder.path(), PATCH).unwrap();
    let moved = folder.path().join("sub/moved.txt");
    let told: Vec<(String, &ChangeKind, &str)> = changes
        .iter()
        .map(|change| {
            (
                change.path.file_name().unwrap().to_str().unwrap().to_owned(),
                &change.kind,
                change.diff.as_str(),
            )
        })
        .collect();
    let move_diff = format!("@@ -1,2 +1,2 @@\n-old\n+new\n rest\n\n\nMoved to: {}", moved.display());
    assert_eq!(
        told,
        [
            ("added.txt".into(), &ChangeKind::Add, "new line\n"),
            ("gone.txt".into(), &ChangeKind::Delete, "bye\n"),
            ("moved.txt".into(), &ChangeKind::Update { move_path: Some(moved) }, move_diff.as_str()),
            (
                "there.txt".into(),
                &ChangeKind::Update { move_path: None },
                "@@ -1,3 +1,3 @@\n l1\n-l2\n+L2\n l3\n"
            ),
        ]
    );
    apply(&changes).unwrap();
    let expected =
        [("added.txt", "new line\n"), ("sub/moved.txt", "new\nrest\n"), ("there.txt", "l1\nL2\nl3\n")];
    assert_eq!(files(folder.path()), of(&expected));
    assert_eq!(
        success_text(&changes),
        "Success. Updated the following files:\nA added.txt\nM sub/moved.txt\nM there.txt\nD gone.txt\n"
    );
}

#[test]
fn sections_see_what_earlier_ones_did() {
    let folder = folder_of_patch();
    let twice = "*** Update File: there.txt\n@@\n-l1\n+x\n*** Update File: there.txt\n@@\n-x\n+y";
    let found = changes(folder.path(), twice).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].after.as_deref(), Some("y\nl2\nl3\n"));
    let gone = "*** Delete File: gone.txt\n*** Update File: gone.txt\n@@\n-bye\n+x";
    assert!(changes(folder.path(), gone).unwrap_err().contains("an earlier section"));
    let onto = "*** Add File: there.txt\n+x";
    assert_eq!(changes(folder.path(), onto).unwrap()[0].kind, ChangeKind::Update { move_path: None });
}

#[test]
fn what_does_not_fit_is_named() {
    let folder = folder_of_patch();
    let misfit = "*** Add File: a\n+x\n*** Update File: there.txt\n@@\n-no such line\n+x";
    let text = changes(folder.path(), misfit).unwrap_err();
    assert!(text.contains("there.txt") && text.contains("no such line"), "{text}");
    let missing = changes(folder.path(), "*** Update File: none\n@@\n-a\n+b").unwrap_err();
    assert!(missing.starts_with("failed to read ") && missing.contains("none: No such file"), "{missing}");
    assert!(changes(folder.path(), "*** Delete File: none").unwrap_err().contains("none"));
}

#[test]
fn a_file_that_changed_after_the_check_stops_all() {
    let folder = folder_of_patch();
    let changes = changes(folder.path(), PATCH).unwrap();
    fs::write(folder.path().join("there.txt"), "other\n").unwrap();
    let before = files(folder.path());
    assert!(apply(&changes).unwrap_err().to_string().contains("there.txt has changed"));
    assert_eq!(files(folder.path()), before);
}

#[test]
fn a_failure_in_the_middle_is_undone() {
    let folder = folder_of_patch();
    let mut changes = changes(folder.path(), PATCH).unwrap();
    // A change whose place is under a file cannot be staged; one onto a folder fails only when it is renamed.
    fs::create_dir_all(folder.path().join("folder/x")).unwrap();
    let before = files(folder.path());
    for bad in ["there.txt/below", "folder"] {
        let last = Change {
            path: folder.path().join(bad),
            shown: bad.into(),
            kind: ChangeKind::Update { move_path: None },
            diff: String::new(),
            before: None,
            after: Some("x".into()),
        };
        let kept = changes.clone();
        changes.push(Change { kind: ChangeKind::Add, ..last });
        assert!(apply(&changes).is_err());
        assert_eq!(files(folder.path()), before, "{bad}");
        changes = kept;
    }
    assert!(!folder.path().join("sub").exists(), "a folder made on the way is gone");
}

#[test]
fn modes_and_links_stay() {
    let folder = folder_of_patch();
    let there = folder.path().join("there.txt");
    fs::set_permissions(&there, fs::Permissions::from_mode(0o750)).unwrap();
    symlink(&there, folder.path().join("link.txt")).unwrap();
    apply(&changes(folder.path(), "*** Update File: link.txt\n@@\n-l1\n+x").unwrap()).unwrap();
    assert!(folder.path().join("link.txt").is_symlink());
    assert_eq!(fs::read_to_string(&there).unwrap(), "x\nl2\nl3\n");
    assert_eq!(fs::metadata(&there).unwrap().permissions().mode() & 0o777, 0o750);
    apply(&changes(folder.path(), "*** Delete File: link.txt").unwrap()).unwrap();
    assert!(there.exists(), "deleting a link leaves its file");
}

#[test]
fn errors_have_their_line() {
    let check = |text: &str, line: usize, part: &str| {
        let error = parse(text).unwrap_err();
        assert_eq!(error.line, line, "{text:?}: {error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    check("", 1, "begins with");
    check("hello", 1, "begins with");
    check("*** Begin Patch\n*** Add File: a\n+x", 4, "no `*** End Patch`");
    check("*** Begin Patch\n*** End Patch", 2, "changes no file");
    check("*** Begin Patch\nwhat\n*** End Patch", 2, "got `what`");
    check("*** Begin Patch\n*** Add File:\n*** End Patch", 2, "path is missing");
    check("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", 3, "begins with `+`");
    check("*** Begin Patch\n*** Update File: a\n@@\n x\nwrong\n*** End Patch", 5, "got `wrong`");
    check("*** Begin Patch\n*** Update File: a\n*** End Patch", 2, "changes nothing");
    check("*** Begin Patch\n*** Update File: a\n@@\n*** End Patch", 3, "no lines");
    check("*** Begin Patch\n*** Delete File: a\n*** End Patch\nmore", 4, "text after");
}

#[test]
fn harmless_slips_are_read() {
    let check = |text: &str| assert!(parse(text).is_ok(), "{:?}", parse(text));
    check("\n*** Begin Patch \n\n*** Add File: a\n+x\n\n*** Delete File: b\n\n*** End Patch\n\n");
    check("*** Begin Patch\n*** Update File: a\n x\n-y\n*** End Patch");
    check("*** Begin Patch\r\n*** Update File: a\r\n@@\r\n-y\r\n+z\r\n*** End Patch\r\n");
    check("*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** End Patch");
    check(
        "*** Begin Patch\n*** Update File: a\n@@\n-x\n\n*** Update File: b\n@@\n-x\n*** End of File\n*** End Patch",
    );
}

fn patch_like() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("*** Begin Patch".to_owned()),
        Just("*** End Patch".to_owned()),
        Just("*** Add File: a".to_owned()),
        Just("*** Update File: b".to_owned()),
        Just("*** Delete File: c".to_owned()),
        Just("*** Move to: d".to_owned()),
        Just("*** End of File".to_owned()),
        Just("@@".to_owned()),
        Just(String::new()),
        "[ +@*-][ -~é]{0,6}",
        any::<String>(),
    ];
    proptest::collection::vec(line, 0..14).prop_map(|lines| lines.join("\n"))
}

/// The patch that turns one text into the other, as a careful model would write it.
fn written(before: &str, after: &str) -> String {
    let mut text = String::from("*** Update File: f\n@@\n");
    for change in similar::TextDiff::from_lines(before, after).iter_all_changes() {
        let mark = match change.tag() {
            similar::ChangeTag::Equal => ' ',
            similar::ChangeTag::Delete => '-',
            similar::ChangeTag::Insert => '+',
        };
        text += &format!("{mark}{}", change.value());
    }
    text + "*** End of File"
}

proptest! {
    #[test]
    fn no_text_breaks_the_parser(text in patch_like()) {
        for text in [text.clone(), format!("*** Begin Patch\n{text}\n*** End Patch")] {
            if let Ok(patch) = parse(&text) {
                prop_assert!(!patch.sections.is_empty());
                let folder = tempfile::tempdir().unwrap();
                let _ = verify(&patch, folder.path());
            }
        }
    }

    #[test]
    fn a_written_patch_gives_the_new_text(before in "([a-c ]{0,3}\n){1,9}", after in "([a-c ]{0,3}\n){1,9}") {
        prop_assume!(before != after);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("f"), &before).unwrap();
        let changes = changes(folder.path(), &written(&before, &after)).unwrap();
        apply(&changes).unwrap();
        prop_assert_eq!(fs::read_to_string(folder.path().join("f")).unwrap(), after);
    }
}
