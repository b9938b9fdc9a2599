//! The modules of a crate as the rules see them: from a root file along its `mod` declarations, without those of tests,
//! and which file defines what a path names. A re-export is followed to the file that defines the name. A name that a
//! macro defines is attributed to the module that the path leads to; a name that an `impl` of another file adds is not
//! seen, since it is not imported.

use std::collections::{BTreeMap, BTreeSet};

use super::scan::scan;

/// Files by their path from the project's root, with their text.
pub(crate) type Files = BTreeMap<String, String>;

/// One module: a file, or a part of one in braces.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// The file that contains it.
    pub(crate) file: String,
    pub(crate) uses: Vec<Use>,
    /// Paths of two names and more outside of `use`, and their lines.
    pub(crate) paths: Vec<(usize, Vec<String>)>,
    /// Words outside of `use` that may refer to an import: types, constants, calls, first segments of paths.
    pub(crate) words: BTreeSet<String>,
    parent: Option<usize>,
    root: usize,
    children: BTreeMap<String, usize>,
    defined: BTreeSet<String>,
}

/// One name that a `use` brings in.
#[derive(Debug)]
pub(crate) struct Use {
    pub(crate) line: usize,
    pub(crate) path: Vec<String>,
    /// The name in this module; `*` for all of them.
    pub(crate) name: String,
    /// It re-exports the name.
    pub(crate) public: bool,
}

/// The target of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    /// An item that this module defines.
    Item(usize),
    /// A module itself.
    Module(usize),
}

/// All modules of some crates.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    pub(crate) all: Vec<Module>,
}

/// Re-exports of re-exports; more than these are globs that look at one another.
const DEEPEST: usize = 8;

impl Modules {
    /// Adds the crate whose root is this file.
    pub(crate) fn read(&mut self, files: &Files, root: &str) {
        let at = self.all.len();
        self.all.push(Module { file: root.to_owned(), root: at, ..Module::default() });
        self.read_file(files, at, folder(root));
    }

    fn read_file(&mut self, files: &Files, at: usize, children: &str) {
        let file = self.all[at].file.clone();
        let Some(text) = files.get(&file) else { return };
        let (code, texts) = scan(text);
        let tokens = tokens(&code);
        let mut reader = Reader { modules: self, files, texts: &texts, tokens: &tokens, next: 0, text: 0 };
        reader.module(at, children);
    }

    fn add(&mut self, name: &str, file: String, parent: usize) -> usize {
        let at = self.all.len();
        let root = self.all[parent].root;
        self.all.push(Module { file, parent: Some(parent), root, ..Module::default() });
        self.all[parent].children.insert(name.to_owned(), at);
        at
    }

    /// The target of `path` in the module `at`; `None`: it is of another crate, or not a module's item.
    pub(crate) fn resolve(&self, at: usize, path: &[String]) -> Option<Named> {
        self.find(at, path, 0)
    }

    fn find(&self, mut at: usize, path: &[String], depth: usize) -> Option<Named> {
        let mut led = false;
        for (step, name) in path.iter().enumerate() {
            let next = match name.as_str() {
                "crate" => Some(Named::Module(self.all[at].root)),
                "self" if step == 0 => Some(Named::Module(at)),
                "super" => Some(Named::Module(self.all[at].parent?)),
                name => self.member(at, name, depth),
            };
            match next {
                Some(Named::Module(module)) => at = module,
                Some(item) => return Some(item),
                None if led => return Some(Named::Item(at)),
                None => return None,
            }
            led = true;
        }
        Some(Named::Module(at))
    }

    fn member(&self, at: usize, name: &str, depth: usize) -> Option<Named> {
        let module = &self.all[at];
        if let Some(child) = module.children.get(name) {
            return Some(Named::Module(*child));
        }
        if module.defined.contains(name) {
            return Some(Named::Item(at));
        }
        if depth > DEEPEST {
            return None;
        }
        let known = module.uses.iter().filter(|said| said.name == name && said.path[0] != name);
        let known = known.filter_map(|said| self.find(at, &said.path, depth + 1)).next();
        known.or_else(|| {
            let globs = module.uses.iter().filter(|said| said.name == "*");
            let open = globs.filter_map(|said| match self.find(at, &said.path, depth + 1)? {
                Named::Module(module) if module != at => self.member(module, name, depth + 1),
                _ => None,
            });
            open.into_iter().next()
        })
    }
}

/// The folder of a file, with its last `/`.
fn folder(file: &str) -> &str {
    &file[..file.rfind('/').map_or(0, |at| at + 1)]
}

/// Words, `::` and signs, with their lines.
fn tokens(code: &str) -> Vec<(usize, &str)> {
    let (mut found, mut line, mut rest) = (Vec::new(), 1, code);
    while let Some(first) = rest.chars().next() {
        let word = word_at(rest);
        let mut ahead = rest.chars().skip(1);
        let length = match first {
            _ if word > 0 => word,
            ':' if rest.starts_with("::") => 2,
            // A character, or a lifetime, which has no second quote.
            '\'' if rest[1..].starts_with('\\') => rest[2..].find('\'').map_or(1, |at| at + 3),
            '\'' => match (ahead.next(), ahead.next()) {
                (Some(c), Some('\'')) => c.len_utf8() + 2,
                _ => 1 + word_at(&rest[1..]),
            },
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        if !first.is_whitespace() {
            found.push((line, token));
        }
        line += usize::from(first == '\n');
        rest = after;
    }
    found
}

fn word_at(text: &str) -> usize {
    text.len() - text.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len()
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

struct Reader<'a> {
    modules: &'a mut Modules,
    files: &'a Files,
    texts: &'a [(usize, String)],
    tokens: &'a [(usize, &'a str)],
    next: usize,
    /// How many strings came before.
    text: usize,
}

/// The attributes before an item.
#[derive(Default)]
struct Attributes {
    test: bool,
    path: Option<String>,
}

impl<'a> Reader<'a> {
    fn peek(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.next + ahead).map_or("", |(_, token)| token)
    }

    fn take(&mut self) -> &'a str {
        let token = self.peek(0);
        self.text += usize::from(token == "\"");
        self.next += 1;
        token
    }

    /// Reads a module to its end; `children`: the folder in which the files of its own modules are.
    fn module(&mut self, at: usize, children: &str) {
        let (mut depth, mut attributes, mut public) = (0_usize, Attributes::default(), false);
        while self.next < self.tokens.len() {
            let line = self.tokens[self.next].0;
            match self.peek(0) {
                "#" if self.peek(1) == "[" => {
                    self.attribute(&mut attributes);
                    if attributes.test {
                        self.skip_item(depth > 0);
                        attributes = Attributes::default();
                    }
                    continue;
                }
                "mod" if depth == 0 && is_word(self.peek(1)) => {
                    let path = attributes.path.take();
                    self.child(at, children, path);
                }
                "use" if is_word(self.peek(1)) || matches!(self.peek(1), "{" | "::") => {
                    self.take();
                    self.used(at, line, &[], public);
                }
                "}" if depth == 0 => {
                    self.take();
                    return;
                }
                "{" => {
                    self.take();
                    depth += 1;
                }
                "}" => {
                    self.take();
                    depth -= 1;
                }
                "pub" => {
                    self.take();
                    public = true;
                    continue;
                }
                // `pub(crate)`, `pub(super)`, `pub(in …)`.
                "(" if public => {
                    while !matches!(self.take(), ")" | "") {}
                    continue;
                }
                word if is_word(word) => self.word(at, line, depth),
                _ => {
                    self.take();
                }
            }
            (attributes, public) = (Attributes::default(), false);
        }
    }

    fn attribute(&mut self, found: &mut Attributes) {
        self.take();
        let (mut depth, mut said) = (0, String::new());
        loop {
            let token = self.take();
            match token {
                "[" => depth += 1,
                "]" => depth -= 1,
                "\"" if said == "[path=" => found.path = Some(self.texts[self.text - 1].1.clone()),
                _ => {}
            }
            said.push_str(token);
            if depth == 0 || token.is_empty() {
                break;
            }
        }
        found.test |= said.starts_with("[cfg(test)") || said.starts_with("[cfg(all(test,");
    }

    /// An item of tests; a field or a branch ends with a comma.
    fn skip_item(&mut self, comma: bool) {
        let mut depth = 0_usize;
        while self.next < self.tokens.len() {
            match self.peek(0) {
                "{" | "(" | "[" => depth += 1,
                "}" if depth == 0 => return,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            let token = self.take();
            if depth == 0 && (matches!(token, "}" | ";") || comma && token == ",") {
                return;
            }
        }
    }

    fn child(&mut self, at: usize, children: &str, path: Option<String>) {
        self.take();
        let name = self.take();
        let inline = self.take() == "{";
        if inline {
            let file = self.modules.all[at].file.clone();
            let child = self.modules.add(name, file, at);
            self.module(child, &format!("{children}{name}/"));
            return;
        }
        let file = match path {
            Some(path) => format!("{}{path}", folder(&self.modules.all[at].file)),
            None if self.files.contains_key(&format!("{children}{name}/mod.rs")) => {
                format!("{children}{name}/mod.rs")
            }
            None => format!("{children}{name}.rs"),
        };
        let below = if file.ends_with("/mod.rs") {
            folder(&file).to_owned()
        } else {
            format!("{}/", file.trim_end_matches(".rs"))
        };
        let child = self.modules.add(name, file, at);
        self.modules.read_file(self.files, child, &below);
    }

    /// Reads one tree of a `use`.
    fn used(&mut self, at: usize, mut line: usize, above: &[String], public: bool) {
        let mut path = above.to_vec();
        loop {
            match self.peek(0) {
                "::" => {
                    self.take();
                }
                "{" => {
                    self.take();
                    while !matches!(self.peek(0), "}" | "") {
                        let line = self.tokens[self.next].0;
                        self.used(at, line, &path, public);
                        if self.peek(0) == "," {
                            self.take();
                        }
                    }
                    self.take();
                    return;
                }
                "as" => {
                    self.take();
                    let name = self.take().to_owned();
                    self.modules.all[at].uses.push(Use { line, path, name, public });
                    return;
                }
                "*" => {
                    self.take();
                    self.modules.all[at].uses.push(Use { line, path, name: "*".to_owned(), public });
                    return;
                }
                word if is_word(word) => {
                    line = self.tokens[self.next].0;
                    path.push(self.take().to_owned());
                }
                _ => break,
            }
        }
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        if let Some(name) = path.last().cloned() {
            self.modules.all[at].uses.push(Use { line, path, name, public });
        }
    }

    /// A word in code: a definition, or the beginning of a path.
    fn word(&mut self, at: usize, line: usize, depth: usize) {
        let before = self.next.checked_sub(1).map_or("", |before| self.tokens[before].1);
        let first = self.take();
        let named = match first {
            "fn" | "struct" | "enum" | "trait" | "type" | "static" | "const" => self.peek(0),
            "macro_rules" => self.peek(1),
            _ => "",
        };
        if depth == 0 && is_word(named) && !matches!(named, "fn" | "unsafe" | "async" | "extern" | "mut") {
            self.modules.all[at].defined.insert(named.to_owned());
        }
        let mut path = vec![first.to_owned()];
        while self.peek(0) == "::" && is_word(self.peek(1)) {
            self.take();
            path.push(self.take().to_owned());
        }
        let is_named = first.starts_with(char::is_uppercase) || matches!(self.peek(0), "(" | "!");
        let module = &mut self.modules.all[at];
        if before != "." && (is_named || path.len() > 1) {
            module.words.insert(path[0].clone());
        }
        if path.len() > 1 && !matches!(before, "::" | ".") {
            module.paths.push((line, path));
        }
    }
}
