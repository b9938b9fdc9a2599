//! YAML as plain values, and back: the parser's events become nodes, and nodes become values.
//!
//! What an alias repeats uses no memory before its cost is checked: an alias refers to its node until values are made
//! from it, and each of them is charged. Only `tree` calls it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag};
use serde_json::{Map, Value};

use super::fields;
use super::limits::{CLASS_TAG, MAX_DEPTH, NODE_COST, is_class_tag};

/// The prefix of YAML's own tags, such as `!!str`.
const CORE: &str = "tag:yaml.org,2002:";

/// Why a text cannot be read, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unread {
    /// The path of fields.
    path: String,
    problem: String,
    line: usize,
    column: usize,
}

impl Unread {
    fn at(place: Marker, problem: impl Into<String>) -> Self {
        Self { path: String::new(), problem: problem.into(), line: place.line(), column: place.col() + 1 }
    }

    fn below(mut self, key: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path.insert_str(0, &format!("{key}{dot}"));
        self
    }

    fn in_list(mut self, place: usize) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path.insert_str(0, &format!("[{place}]{dot}"));
        self
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, problem, line, column } = self;
        let colon = if path.is_empty() { "" } else { ": " };
        write!(f, "{path}{colon}{problem} at line {line} column {column}")
    }
}

/// All documents of a text, up to this cost.
pub(super) fn documents(text: &str, mut budget: usize) -> Result<Vec<Value>, Unread> {
    no_control_characters(text)?;
    let mut parser = Parser::new_from_str(text);
    let (mut found, mut nodes) = (Vec::new(), Nodes::default());
    // A block scalar that ends with the text keeps the text's own final line break only.
    let end = if text.ends_with('\n') { usize::MAX } else { text.chars().count() };
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| Unread::at(*error.marker(), error.info()))?;
        match event {
            Event::DocumentStart(_) => nodes = Nodes::default(),
            Event::DocumentEnd => {
                let Some(root) = nodes.root.take() else { continue };
                let mut reading = Reading { nodes: &nodes.all, budget };
                found.push(reading.value(root, YamlPosition::ROOT)?);
                budget = reading.budget;
            }
            Event::Scalar(text, style @ (ScalarStyle::Literal | ScalarStyle::Folded), anchor, tag)
                if span.end.index() >= end =>
            {
                let text = text.strip_suffix('\n').map(|text| text.to_owned().into()).unwrap_or(text);
                nodes.take(Event::Scalar(text, style, anchor, tag), span, 2 * budget / NODE_COST)?;
            }
            event => nodes.take(event, span, 2 * budget / NODE_COST)?,
        }
    }
    Ok(found)
}

fn no_control_characters(text: &str) -> Result<(), Unread> {
    let is_one = |c: char| {
        c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}') || matches!(c, '\u{fffe}' | '\u{ffff}')
    };
    let Some((before, _)) = text.split_once(is_one) else { return Ok(()) };
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count());
    let at = Marker::new(before.len(), before.matches('\n').count() + 1, column);
    Err(Unread::at(at, "control characters are not allowed"))
}

/// A scalar or a collection with its position; a collection refers to others by index.
struct Node<'t> {
    at: Marker,
    tag: Option<Cow<'t, Tag>>,
    is: Is<'t>,
}

enum Is<'t> {
    Scalar { text: Cow<'t, str>, plain: bool },
    List(Vec<usize>),
    Mapping(Vec<(usize, usize)>),
}

/// The nodes of a document so far.
#[derive(Default)]
struct Nodes<'t> {
    all: Vec<Node<'t>>,
    root: Option<usize>,
    /// The open collections; for a mapping, with the key whose value comes next.
    open: Vec<(usize, Option<usize>)>,
    anchors: BTreeMap<usize, usize>,
}

impl<'t> Nodes<'t> {
    fn take(&mut self, event: Event<'t>, span: Span, most: usize) -> Result<(), Unread> {
        let at = span.start;
        match event {
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(node) => self.put(*node),
                None => return Err(Unread::at(at, "the alias names nothing")),
            },
            Event::Scalar(text, style, anchor, tag) => {
                let is = Is::Scalar { text, plain: style == ScalarStyle::Plain };
                self.add(Node { at, tag, is }, anchor, most)?;
            }
            Event::SequenceStart(anchor, tag) => {
                self.open(Node { at, tag, is: Is::List(Vec::new()) }, anchor, most)?;
            }
            Event::MappingStart(anchor, tag) => {
                self.open(Node { at, tag, is: Is::Mapping(Vec::new()) }, anchor, most)?;
            }
            Event::SequenceEnd | Event::MappingEnd => drop(self.open.pop()),
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, node: Node<'t>, anchor: usize, most: usize) -> Result<(), Unread> {
        if self.open.len() >= MAX_DEPTH {
            return Err(Unread::at(node.at, too_deep()));
        }
        let number = self.add(node, anchor, most)?;
        self.open.push((number, None));
        Ok(())
    }

    fn add(&mut self, node: Node<'t>, anchor: usize, most: usize) -> Result<usize, Unread> {
        let number = self.all.len();
        if number > most {
            return Err(Unread::at(node.at, TOO_MUCH));
        }
        self.all.push(node);
        if anchor > 0 {
            self.anchors.insert(anchor, number);
        }
        self.put(number);
        Ok(number)
    }

    /// Adds a node to the innermost open collection.
    fn put(&mut self, number: usize) {
        let Some((open, key)) = self.open.last_mut() else {
            self.root = Some(number);
            return;
        };
        match self.all.get_mut(*open).map(|node| &mut node.is) {
            Some(Is::List(list)) => list.push(number),
            Some(Is::Mapping(entries)) => match key.take() {
                None => *key = Some(number),
                Some(key) => entries.push((key, number)),
            },
            _ => {}
        }
    }
}

const TOO_MUCH: &str = "it holds too much";

fn too_deep() -> String {
    format!("it nests deeper than {MAX_DEPTH} levels")
}

/// The place of a value, as far as it determines how the value is read.
#[derive(Clone, Copy)]
struct YamlPosition {
    depth: usize,
    /// A plain scalar is kept as written.
    text: bool,
    /// The same for all fields below.
    texts_below: bool,
    /// Below a mapping or list where a text was expected, scalars are read normally: a later check reports it.
    loose: bool,
}

impl YamlPosition {
    const ROOT: Self = Self { depth: 0, text: false, texts_below: false, loose: false };

    fn below(self, at: Marker) -> Result<Self, Unread> {
        if self.depth == MAX_DEPTH {
            return Err(Unread::at(at, too_deep()));
        }
        Ok(Self { depth: self.depth + 1, loose: self.loose || self.text, ..self })
    }

    fn field(self, key: &str) -> Self {
        let texts_below = self.texts_below || key == "props";
        Self { text: self.texts_below || fields::is_text(key), texts_below, ..self }
    }
}

struct Reading<'n, 't> {
    nodes: &'n [Node<'t>],
    budget: usize,
}

impl Reading<'_, '_> {
    fn spend(&mut self, at: Marker, bytes: usize) -> Result<(), Unread> {
        let left = self.budget.checked_sub(bytes + NODE_COST);
        self.budget = left.ok_or_else(|| Unread::at(at, TOO_MUCH))?;
        Ok(())
    }

    fn value(&mut self, number: usize, place: YamlPosition) -> Result<Value, Unread> {
        let nodes = self.nodes;
        let Some(node) = nodes.get(number) else { return Ok(Value::Null) };
        if let Is::Scalar { text, plain } = &node.is
            && place.text
            && !place.loose
        {
            let untold = node.tag.as_deref().is_none_or(|tag| core(tag) == Some("null"));
            if *plain && untold && (text.is_empty() || is_null(text)) {
                return Ok(Value::Null);
            }
            self.spend(node.at, text.len())?;
            return Ok(Value::String(text.clone().into_owned()));
        }
        match node.tag.as_deref().map(spelled).filter(|tag| !tag.starts_with(CORE) && tag != "!") {
            None => self.bare(node, place, node.tag.as_deref().and_then(core)),
            Some(tag) if is_class_tag(&tag) => {
                let inner = self.bare(node, place.below(node.at)?, None)?;
                Ok(Value::Object(Map::from_iter([(tag, inner)])))
            }
            Some(tag) => Err(Unread::at(node.at, format!("the YAML tag {tag:?} is not accepted"))),
        }
    }

    /// Reads a node after its tag was handled, except for one of YAML's own.
    fn bare(&mut self, node: &Node<'_>, place: YamlPosition, core: Option<&str>) -> Result<Value, Unread> {
        match &node.is {
            Is::Scalar { text, plain } => {
                let value = match core {
                    Some(tag @ ("bool" | "int" | "float" | "null")) => tagged(tag, text),
                    Some(_) => Ok(Value::String(text.clone().into_owned())),
                    None if *plain => resolved(text),
                    None => Ok(Value::String(text.clone().into_owned())),
                };
                let value = value.map_err(|problem| Unread::at(node.at, problem))?;
                if let Value::String(text) = &value {
                    self.spend(node.at, text.len())?;
                }
                Ok(value)
            }
            Is::List(list) => {
                let below = place.below(node.at)?;
                let mut values = Vec::new();
                for (i, number) in list.iter().enumerate() {
                    values.push(self.value(*number, below).map_err(|unread| unread.in_list(i))?);
                    self.spend(node.at, 0)?;
                }
                Ok(Value::Array(values))
            }
            Is::Mapping(entries) => {
                let below = place.below(node.at)?;
                let mut values = Map::new();
                for (key, value) in entries {
                    let Some(Node { at, is: Is::Scalar { text: key, .. }, .. }) = self.nodes.get(*key) else {
                        return Err(Unread::at(node.at, "a key of it is no text"));
                    };
                    self.spend(*at, key.len())?;
                    let value = self.value(*value, below.field(key)).map_err(|unread| unread.below(key))?;
                    if values.contains_key(&**key) {
                        return Err(Unread::at(*at, format!("the field {key:?} is there twice")));
                    }
                    values.insert(key.clone().into_owned(), value);
                }
                Ok(Value::Object(values))
            }
        }
    }
}

/// The name of one of YAML's own tags.
fn core(tag: &Tag) -> Option<&str> {
    if tag.handle == CORE {
        Some(&tag.suffix)
    } else {
        tag.suffix.strip_prefix(CORE).filter(|_| tag.handle.is_empty())
    }
}

/// A tag as it was written, if it names a class; YAML's own tags get their long name.
fn spelled(tag: &Tag) -> String {
    let class = core(tag).map(|name| format!("!!{name}")).filter(|name| name.starts_with(CLASS_TAG));
    class.unwrap_or_else(|| format!("{}{}", tag.handle, tag.suffix))
}

fn tagged(tag: &str, text: &str) -> Result<Value, String> {
    let value = match tag {
        "bool" => boolean(text).map(Value::Bool),
        "int" => integer(text)?,
        "float" => float(text).map(Value::from),
        _ => is_null(text).then_some(Value::Null),
    };
    value.ok_or_else(|| format!("{text:?} is no {tag}"))
}

/// The value of a plain scalar, by the core schema.
fn resolved(text: &str) -> Result<Value, String> {
    if text.is_empty() || is_null(text) {
        return Ok(Value::Null);
    }
    if let Some(value) = boolean(text) {
        return Ok(Value::Bool(value));
    }
    if let Some(number) = integer(text)? {
        return Ok(number);
    }
    // Text with leading zeros is not a number.
    let number = float(text).filter(|_| !has_leading_zero(text));
    Ok(number.map_or_else(|| Value::String(text.to_owned()), Value::from))
}

fn is_null(text: &str) -> bool {
    matches!(text, "null" | "Null" | "NULL" | "~")
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

fn integer(text: &str) -> Result<Option<Value>, String> {
    let (negative, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let with_radix = |prefix: &str, radix| Some((digits.strip_prefix(prefix)?, radix));
    let (digits, radix) = with_radix("0x", 16)
        .or_else(|| with_radix("0o", 8))
        .or_else(|| with_radix("0b", 2))
        .unwrap_or((digits, 10));
    let all = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    if !all || (radix == 10 && has_leading_zero(text)) {
        return Ok(None);
    }
    let too_large = || format!("the number {text} is too large");
    let Ok(number) = i128::from_str_radix(digits, radix) else { return Ok(None) };
    let number = if negative { -number } else { number };
    let small = || i64::try_from(number).ok().map(Value::from);
    u64::try_from(number).ok().map(Value::from).or_else(small).map(Some).ok_or_else(too_large)
}

fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    match (text, unsigned) {
        (_, ".inf" | ".Inf" | ".INF") => Some(f64::INFINITY),
        ("-.inf" | "-.Inf" | "-.INF", _) => Some(f64::NEG_INFINITY),
        (".nan" | ".NaN" | ".NAN", _) => Some(f64::NAN),
        _ if unsigned.len() < text.len() && unsigned.starts_with(['+', '-']) => None,
        _ => unsigned.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

fn has_leading_zero(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit())
}

// ---- writing

/// A mapping as YAML for people.
pub(super) fn written(values: &Map<String, Value>) -> String {
    let mut text = String::new();
    mapping(values, 0, &mut text);
    text
}

fn mapping(values: &Map<String, Value>, indent: usize, into: &mut String) {
    for (i, (key, value)) in values.iter().enumerate() {
        let _ = write!(into, "{:1$}{2}:", "", if i == 0 { 0 } else { indent }, scalar(key));
        below(value, indent, indent, into);
    }
}

/// The value after a colon.
fn below(value: &Value, indent: usize, of_list: usize, into: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let _ = write!(into, "\n{:1$}", "", indent + 2);
            mapping(map, indent + 2, into);
        }
        Value::Array(list) if !list.is_empty() => {
            into.push('\n');
            list.iter().for_each(|value| entry(value, of_list, into));
        }
        other => {
            into.push(' ');
            plain(other, indent, into);
        }
    }
}

fn entry(value: &Value, indent: usize, into: &mut String) {
    let _ = write!(into, "{:1$}-", "", indent);
    match value {
        Value::Object(map) if !map.is_empty() => {
            into.push(' ');
            mapping(map, indent + 2, into);
        }
        other => below(other, indent, indent + 2, into),
    }
}

fn plain(value: &Value, indent: usize, into: &mut String) {
    match value {
        Value::String(text) if is_block(text) => {
            into.push_str(if text.ends_with('\n') { "|" } else { "|-" });
            for line in text.lines() {
                let indent = if line.is_empty() { 0 } else { indent + 2 };
                let _ = write!(into, "\n{:1$}{line}", "", indent);
            }
        }
        Value::String(text) => into.push_str(&scalar(text)),
        other => into.push_str(&other.to_string()),
    }
    into.push('\n');
}

/// Whether the text can be written as a block of several lines.
fn is_block(text: &str) -> bool {
    let lines = text.strip_suffix('\n').unwrap_or(text);
    let safe = |line: &str| line.chars().all(|c| !is_odd(c)) && !line.ends_with(' ');
    text.contains('\n')
        && !lines.starts_with([' ', '\n', '#'])
        && !lines.ends_with('\n')
        && !lines.is_empty()
        && lines.split('\n').all(safe)
}

/// Characters that are never written unescaped.
fn is_odd(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// A text with as few quotes and escapes as possible.
fn scalar(text: &str) -> Cow<'_, str> {
    if text.contains(is_odd) {
        let mut quoted = String::from("\"");
        for c in text.chars() {
            match c {
                '"' | '\\' => quoted.extend(['\\', c]),
                '\n' => quoted.push_str("\\n"),
                c if is_odd(c) => drop(write!(quoted, "\\u{:04x}", u32::from(c))),
                c => quoted.push(c),
            }
        }
        quoted.push('"');
        return quoted.into();
    }
    const MARKS: &str = "-?:,[]{}#&*!|>'\"%@`=<. ";
    let means_itself = matches!(resolved(text), Ok(Value::String(_)));
    let bare = means_itself && !text.starts_with(|c| MARKS.contains(c)) && !text.ends_with([' ', ':']);
    if bare && !text.contains(": ") && !text.contains(" #") {
        return text.into();
    }
    format!("'{}'", text.replace('\'', "''")).into()
}
