//! Parses bytes into a plain tree of values, treating them as hostile: limited in size, depth and memory (an alias that
//! repeats a large list counts each time), no duplicate fields, no YAML tags except those with which Elastic-Job names
//! its own classes: `!!class {…}` becomes the mapping `{"!!class": {…}}`.
//!
//! Never interprets a field; it only knows which fields are texts, so that an unquoted `1.10` or `0010` keeps its
//! spelling, as in Elastic-Job. Called by the parsers of job files and of nodes.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::defect::{Defect, DefectKind, Defects, printable};
use super::limits::{MAX_DEPTH, NODE_COST, is_class_tag};
use super::yaml;

/// The maximum cost of a tree, which is its texts' bytes plus [`NODE_COST`] for each value, as a multiple of the
/// input's limit.
const BUDGET: usize = 8;

/// The maximum cost of YAML, per byte of the text: the shortest value takes two bytes, and costs twice as much.
const YAML_BUDGET: usize = 40;
const YAML_BASE: usize = 4096;

/// All documents in `bytes`: one for JSON, any number for YAML. Empty documents are skipped.
pub(super) fn documents(bytes: &[u8], max_bytes: usize) -> Result<Vec<Value>, Defects> {
    if bytes.len() > max_bytes {
        let problem = format!("{} bytes are too many: at most {max_bytes} are read", bytes.len());
        return Err(Defect::new(DefectKind::TooLarge, "", problem, "split it, or shorten its texts").into());
    }
    let text = std::str::from_utf8(bytes).map_err(|e| unreadable(format!("it is not UTF-8 text ({e})")))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let budget = BUDGET * max_bytes;
    if text.trim_start().starts_with(['{', '['])
        && let Ok(value) = json(text, budget)
    {
        return Ok(vec![value]);
    }
    // No text without aliases costs more, so one with aliases may not either.
    let most = budget.min(YAML_BASE + YAML_BUDGET * text.len());
    let documents = yaml::documents(text, most).map_err(unreadable)?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

fn unreadable(problem: impl fmt::Display) -> Defects {
    let problem = printable(&problem.to_string());
    let problem = format!("it cannot be read as JSON or YAML: {problem}");
    Defect::new(DefectKind::Unreadable, "", problem, "correct it at that place").into()
}

fn json(text: &str, budget: usize) -> Result<Value, String> {
    let budget = Cell::new(budget);
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Tree::root(&budget).deserialize(&mut reader).map_err(|e| e.to_string())?;
    reader.end().map_err(|e| e.to_string())?;
    Ok(value)
}

/// Writes a tree as text: JSON, with the YAML tag in front of a mapping that stands for a tagged one.
pub(super) fn write(value: &Value, into: &mut String) {
    match value {
        Value::Object(map) => match map.iter().next() {
            Some((tag, inner)) if map.len() == 1 && is_class_tag(tag) => {
                into.push_str(tag);
                into.push(' ');
                write(inner, into);
            }
            _ => write_all(into, '{', map.iter().map(|(key, value)| (Some(key), value)), '}'),
        },
        Value::Array(list) => write_all(into, '[', list.iter().map(|value| (None, value)), ']'),
        scalar => into.push_str(&scalar.to_string()),
    }
}

fn write_all<'v>(
    into: &mut String,
    open: char,
    values: impl Iterator<Item = (Option<&'v String>, &'v Value)>,
    close: char,
) {
    into.push(open);
    for (i, (key, value)) in values.enumerate() {
        if i > 0 {
            into.push(',');
        }
        if let Some(key) = key {
            into.push_str(&Value::from(key.as_str()).to_string());
            into.push(':');
        }
        write(value, into);
    }
    into.push(close);
}

/// Reads one value of JSON, with limits for depth and cost.
#[derive(Clone, Copy)]
struct Tree<'b> {
    budget: &'b Cell<usize>,
    depth: usize,
}

impl<'b> Tree<'b> {
    fn root(budget: &'b Cell<usize>) -> Self {
        Self { budget, depth: 0 }
    }

    fn spend<E: Error>(&self, bytes: usize) -> Result<(), E> {
        let left = self.budget.get().checked_sub(bytes + NODE_COST);
        self.budget.set(left.ok_or_else(|| E::custom("it holds too much"))?);
        Ok(())
    }

    fn below<E: Error>(&self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom(format_args!("it nests deeper than {MAX_DEPTH} levels")));
        }
        Ok(Self { depth: self.depth + 1, ..*self })
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, number, boolean, list or mapping")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.spend(value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(below)? {
            self.spend(0)?;
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut values = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            self.spend(key.len())?;
            let value = map.next_value_seed(below)?;
            if values.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the field {key:?} is there twice")));
            }
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::CLASS_TAG;
    use super::*;

    const MAX: usize = 1 << 20;

    fn problem(text: &str) -> String {
        documents(text.as_bytes(), MAX).unwrap_err().to_string()
    }

    #[test]
    fn plain_scalars_of_text_fields_stay_as_written() {
        let read = documents(b"jobParameter: 1.10\nlabel: 0010\ncron: ~\nprops: {a: 1e3, b: 0x10}\n", MAX);
        let expected = serde_json::json!({"jobParameter": "1.10", "label": "0010", "cron": null, "props": {"a": "1e3", "b": "0x10"}});
        assert_eq!(read.unwrap(), vec![expected]);
    }

    #[test]
    fn several_documents_are_read_and_empty_ones_left_out() {
        assert_eq!(documents(b"---\na: 1\n---\n---\na: 2\n", MAX).unwrap().len(), 2);
        assert_eq!(documents(b"", MAX).unwrap().len(), 0);
    }

    #[test]
    fn a_bomb_of_aliases_is_refused() {
        let list = format!("a: &a [{}]\n", "1,".repeat(20_000));
        assert!(problem(&format!("{list}b: [{}]\n", "*a,".repeat(10_000))).contains("it holds too much"));
    }

    #[test]
    fn aliases_that_repeat_aliases_are_refused_before_they_are_unfolded() {
        let mut text = "a0: &a0 [x, x]\n".to_owned();
        (1..30).for_each(|i| text += &format!("a{i}: &a{i} [*a{0}, *a{0}]\n", i - 1));
        assert!(problem(&text).contains("it holds too much"), "{}", problem(&text));
        let itself = problem("a: &a [*a, *a]\n");
        assert!(itself.contains("deeper than 32") || itself.contains("too much"), "{itself}");
        assert!(problem("a: *b\n").contains("line 1 column 4"), "{}", problem("a: *b\n"));
    }

    #[test]
    fn a_refusal_names_the_field_and_where_it_stands() {
        let text = "a: 1\nb:\n- x: 1\n- y: {z: 1, z: 2}\n";
        let expected = "b[1].y: the field \"z\" is there twice at line 4 column 13";
        assert!(problem(text).contains(expected), "{}", problem(text));
        assert!(problem("a: [1\nb: 2\n").contains("at line 2 column"), "{}", problem("a: [1\nb: 2\n"));
    }

    #[test]
    fn deep_nesting_is_refused_fast() {
        for text in ["[".repeat(MAX), "- ".repeat(MAX / 2), "? ".repeat(MAX / 2), "{a: ".repeat(MAX / 4)] {
            assert!(documents(text.as_bytes(), MAX).is_err());
        }
        let nested = format!("{}1{}", "[".repeat(40), "]".repeat(40));
        assert!(problem(&nested).contains("deeper than 32"), "{}", problem(&nested));
        let quoted = format!("a: '{}'", "[".repeat(5000));
        assert!(documents(quoted.as_bytes(), MAX).is_ok(), "a string is not nesting");
        assert!(problem(&"- ".repeat(65)).contains("deeper than 32"));
    }

    #[test]
    fn a_text_is_limited_and_what_it_costs_as_well() {
        let long = |bytes: usize| documents(format!("{:1$}", "a: 1", bytes).as_bytes(), 40);
        assert!(long(40).is_ok());
        assert!(long(41).unwrap_err().to_string().contains("41 bytes are too many: at most 40"));
        let dear = |text: &[u8]| documents(text, 40).map(|documents| documents.len()).ok();
        assert_eq!(dear(b"a: [1, 2, 3, 4]"), Some(1), "in more than eight bytes beyond its length");
        assert_eq!(dear(b"a: [1,2,3,4,5,6,7,8,9,0]"), None);
    }

    #[test]
    fn a_class_tag_of_elastic_job_survives_and_no_other() {
        let class = format!("{CLASS_TAG}tracing.yaml.YamlTracingConfiguration");
        let yaml = format!("a:\n- {class}\n  type: RDB\njobParameter: '{class} x'\n");
        let read = documents(yaml.as_bytes(), MAX).unwrap();
        assert_eq!(
            read,
            [serde_json::json!({"a": [{&class: {"type": "RDB"}}], "jobParameter": format!("{class} x")})]
        );
        let mut written = String::new();
        write(&read[0], &mut written);
        assert_eq!(written, format!(r#"{{"a":[{class} {{"type":"RDB"}}],"jobParameter":"{class} x"}}"#));
        assert_eq!(documents(written.as_bytes(), MAX).unwrap(), read);
        assert!(problem(&format!("a: {CLASS_TAG}x%2c {{}}")).contains("not accepted"));
        let mut plain = String::new();
        write(&serde_json::json!({"!!javax.script.ScriptEngineManager": {}}), &mut plain);
        assert_eq!(plain, r#"{"!!javax.script.ScriptEngineManager":{}}"#);
    }

    #[test]
    fn tags_and_repeated_fields_are_refused() {
        assert!(documents(b"a: !java.net.URL [b]\n", MAX).is_err());
        assert!(problem("a: 1\na: 2\n").contains("twice"));
        assert!(problem(r#"{"a": 1, "a": 2}"#).contains("twice"));
        assert!(documents(&[0xff, 0xfe], MAX).is_err());
        assert_eq!(documents(&[b'a'; 9], 8).unwrap_err().iter().next().unwrap().kind, DefectKind::TooLarge);
    }
}
