//! YAML without anchors and tags, as plain values.

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// Open collections; of a mapping also the key whose value follows.
enum Open {
    List(Vec<Value>),
    Mapping(Map<String, Value>, Option<String>),
}

/// The one document of a text.
pub(super) fn read(text: &str) -> Value {
    let mut open: Vec<Open> = Vec::new();
    let mut root = Value::Null;
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.expect("YAML");
        let done = match event {
            Event::Scalar(text, style, 0, None) => scalar(&text, style == ScalarStyle::Plain),
            Event::SequenceStart(0, None) => {
                open.push(Open::List(Vec::new()));
                continue;
            }
            Event::MappingStart(0, None) => {
                open.push(Open::Mapping(Map::new(), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop().expect("an open collection") {
                Open::List(list) => Value::Array(list),
                Open::Mapping(map, _) => Value::Object(map),
            },
            Event::Scalar(..) | Event::SequenceStart(..) | Event::MappingStart(..) | Event::Alias(_) => {
                panic!("anchors and tags are not read: line {}", span.start.line())
            }
            _ => continue,
        };
        match open.last_mut() {
            None => root = done,
            Some(Open::List(list)) => list.push(done),
            Some(Open::Mapping(map, key)) => match key.take() {
                Some(key) => assert!(map.insert(key.clone(), done).is_none(), "{key} is there twice"),
                None => *key = Some(done.as_str().map_or_else(|| done.to_string(), ToOwned::to_owned)),
            },
        }
    }
    root
}

fn scalar(text: &str, plain: bool) -> Value {
    match text {
        _ if !plain => Value::from(text),
        "" | "~" | "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from),
    }
}
