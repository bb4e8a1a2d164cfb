//! The documents of the repository: links lead to a file or a heading, and tests that they name
//! exist. Links to other sites are not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::root;

/// The folder of the book's pages. The book is published without the rest of the repository, so its
/// links must not leave this folder.
const BOOK: &str = "docs/book/src";

#[test]
fn links_lead_to_files_and_headings() {
    let pages = pages(root(), &documents());
    assert_eq!(wrong_links(root(), &pages), Vec::<String>::new());
}

#[test]
fn documents_name_only_tests_that_exist() {
    let mut problems = Vec::new();
    for page in documents().iter().filter(|page| page.starts_with("docs")) {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let missing = missing_tests(root(), &text);
        problems.extend(
            missing
                .iter()
                .map(|test| format!("{}: {test}", page.display())),
        );
    }
    assert_eq!(
        problems,
        Vec::<String>::new(),
        "documents name tests that do not exist"
    );
}

#[test]
fn each_step_of_ci_is_in_the_workflow() {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let output = xtask.args(["ci", "--only", "unknown"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let (_, steps) = said.split_once("the steps are ").unwrap();
    let workflow = fs::read_to_string(root().join(".github/workflows/ci.yml")).unwrap();
    let jobs = workflow.lines().filter_map(|line| {
        let (_, steps) = line.split_once("--only ").or(line.split_once("- "))?;
        Some(steps.trim())
    });
    let named: BTreeSet<&str> = jobs.flat_map(|steps| steps.split(',')).collect();
    let steps: Vec<&str> = steps.lines().next().unwrap().split(", ").collect();
    assert!(steps.len() > 20, "{said}");
    for step in steps {
        // The step `test` is a job of its own, on several systems.
        assert!(named.contains(step) || step == "test", "{step}");
    }
}

/// Returns the Markdown files that Git does not ignore, relative to the root.
fn documents() -> Vec<PathBuf> {
    let mut git = Command::new("git");
    let list = [
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "*.md",
    ];
    let output = git.current_dir(root()).args(list).output().unwrap();
    let files = String::from_utf8(output.stdout).unwrap();
    let files: Vec<PathBuf> = files.lines().map(PathBuf::from).collect();
    assert!(files.len() > 20, "{files:?}");
    files
        .into_iter()
        .filter(|file| root().join(file).exists())
        .collect()
}

fn pages(root: &Path, files: &[PathBuf]) -> BTreeMap<PathBuf, Page> {
    let read = |file: &PathBuf| {
        let text = fs::read_to_string(root.join(file)).unwrap();
        (file.clone(), Page::parse(&text))
    };
    files.iter().map(read).collect()
}

/// Returns the links that lead nowhere.
fn wrong_links(root: &Path, pages: &BTreeMap<PathBuf, Page>) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, page) in pages {
        for (line, target) in &page.links {
            if let Err(problem) = follow(root, pages, name, target) {
                problems.push(format!("{}:{line}: {target}: {problem}", name.display()));
            }
        }
    }
    problems
}

/// Returns the tests that a text names but that do not exist. A page names a test as
/// `package::it::module::test` or as `ui:package/file.rs`.
fn missing_tests(root: &Path, text: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for named in text.split('`').skip(1).step_by(2) {
        let exists = if let Some(file) = named.strip_prefix("ui:c") {
            let (package, file) = file.split_once('/').unwrap_or_default();
            let folder = root.join(format!("crates/c{package}/tests/ui"));
            folder.join(file).is_file()
        } else if let Some((package, test)) = named.split_once("::")
            && ["it::", "attacks::"]
                .iter()
                .any(|target| test.starts_with(target))
        {
            let function = format!("fn {}(", test.rsplit("::").next().unwrap_or_default());
            let mut sources = String::new();
            crate::read(
                &root.join("crates").join(package).join("tests"),
                &mut sources,
            );
            sources.contains(&function)
        } else {
            true
        };
        if !exists {
            missing.push(named.to_owned());
        }
    }
    missing
}

/// Checks one link of the page `from`.
fn follow(
    root: &Path,
    pages: &BTreeMap<PathBuf, Page>,
    from: &Path,
    target: &str,
) -> Result<(), String> {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let to = if path.is_empty() {
        from.to_owned()
    } else {
        resolve(from, path).ok_or("is outside of the repository")?
    };
    if from.starts_with(BOOK) && !to.starts_with(BOOK) {
        return Err(format!("is outside of {BOOK}"));
    }
    if !root.join(&to).exists() {
        return Err("the file does not exist".to_owned());
    }
    match (anchor, pages.get(&to)) {
        (Some(anchor), Some(page)) if !page.anchors.contains(anchor) => {
            Err(format!("{} has no such heading", to.display()))
        }
        _ => Ok(()),
    }
}

/// Returns the path, relative to the root, to which a link of `from` leads. `None` if it is outside
/// of the root.
fn resolve(from: &Path, target: &str) -> Option<PathBuf> {
    let mut path = from.parent()?.to_owned();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// The links of a page, and the anchors to which links can lead.
#[derive(Debug, Default, PartialEq)]
struct Page {
    /// The number of the line, and the target.
    links: Vec<(usize, String)>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let mut fence = None;
        for (index, line) in text.lines().enumerate() {
            let trimmed = line.trim_start();
            let mark = ["```", "~~~"]
                .into_iter()
                .find(|mark| trimmed.starts_with(mark));
            match (fence, mark) {
                (None, Some(mark)) => fence = Some(mark),
                (Some(open), Some(mark)) if open == mark => fence = None,
                (None, None) => page.parse_line(index + 1, line),
                _ => {}
            }
        }
        page
    }

    fn parse_line(&mut self, number: usize, line: &str) {
        let hashes = line.bytes().take_while(|byte| *byte == b'#').count();
        if (1..=6).contains(&hashes)
            && let Some(title) = line[hashes..].strip_prefix(' ')
        {
            let slug = slug(title);
            let mut unique = slug.clone();
            let mut count = 0;
            while !self.anchors.insert(unique) {
                count += 1;
                unique = format!("{slug}-{count}");
            }
        }
        let line = without_code(line);
        let definition = line.trim_start().strip_prefix('[');
        let definition = definition.and_then(|it| Some(it.split_once("]: ")?.1));
        let inline = line
            .split("](")
            .skip(1)
            .map(|it| it.split([')', ' ']).next());
        let attributes = ["href=\"", "src=\""]
            .into_iter()
            .flat_map(|name| line.split(name).skip(1))
            .map(|it| it.split('"').next());
        let targets = inline.chain(attributes).chain([definition]).flatten();
        let targets: Vec<String> = targets
            .map(|target| target.trim_matches(['<', '>']).to_owned())
            // Other sites, and items of rustdoc, which checks them itself.
            .filter(|target| !target.contains(':') && !target.is_empty())
            .collect();
        self.links
            .extend(targets.into_iter().map(|target| (number, target)));
    }
}

/// Removes what is in backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// Returns the anchor of a heading, as GitHub and mdBook make it.
fn slug(title: &str) -> String {
    let kept = title.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[test]
fn links_and_anchors_of_a_page_are_found() {
    let page = Page::parse(
        "# Two `words`: done\n\
         # Two words done\n\
         [`a`](b.md#c) and [d](<e> \"title\"), `[not](code)`\n\
         ```\n# no heading\n[not](code)\n```\n\
         <a href=\"f.html\">, ![g](h.svg), [i](https://j), [k](crate::L)\n\
         [m]: n.md\n",
    );
    let links: Vec<&str> = page.links.iter().map(|(_, it)| it.as_str()).collect();
    assert_eq!(links, ["b.md#c", "e", "h.svg", "f.html", "n.md"]);
    assert_eq!(page.links[0].0, 3);
    let anchors: Vec<&str> = page.anchors.iter().map(String::as_str).collect();
    assert_eq!(anchors, ["two-words-done", "two-words-done-1"]);
}

#[test]
fn a_link_that_leads_nowhere_is_a_problem() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let mut files = Vec::new();
    for (file, text) in [
        ("README.md", "# A\n[](docs) [](docs/a.md#b-c) [](#a)"),
        ("docs/a.md", "## B c\n[](../README.md#a)"),
        ("docs/book/src/a.md", "# A\n[](#a)"),
    ] {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        files.push(file.into());
    }
    let problems = || wrong_links(root, &pages(root, &files));
    assert_eq!(problems(), Vec::<String>::new());
    for (file, link) in [
        ("README.md", "docs/b.md"),
        ("README.md", "docs/a.md#d"),
        ("README.md", "#b"),
        ("README.md", "../a.md"),
        ("README.md", "/docs/a.md"),
        ("docs/book/src/a.md", "../../a.md"),
    ] {
        let path = root.join(file);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}\n[]({link})")).unwrap();
        assert_eq!(problems().len(), 1, "{link}");
        fs::write(&path, text).unwrap();
    }
}

#[test]
fn a_page_names_only_tests_that_exist() {
    let dir = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("crates/cuda-a/tests/it/b.rs", "fn exists() {}"),
        ("crates/cuda-a/tests/ui/c.rs", ""),
    ] {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let text =
        "`cuda-a::it::b::exists` `cuda-a::it::b::gone` `ui:cuda-a/c.rs` `ui:cuda-a/d.rs` `x`";
    let expected = ["cuda-a::it::b::gone", "ui:cuda-a/d.rs"];
    assert_eq!(missing_tests(dir.path(), text), expected);
}
