//! How the generations of Elastic-Job state a job's class and kind, each in fields of its own.
//!
//! Those fields are not kept: class and type become the handler and the kind, the rest becomes the properties that 3.x
//! has for it. Called by `file` alone.

use serde_json::Value;

use super::config::ConfigFields;
use super::defect::DefectKind;
use super::policy::JobKind;
use super::reader::FieldReader;
use super::spec::{COMMAND_LINE, STREAMING, implied_kind, named_kind};

/// Fields of older generations, and of Spring Boot's YAML.
pub(super) struct Origin {
    class: Option<String>,
    named_type: Option<String>,
    streaming: Option<bool>,
    command_line: Option<String>,
}

/// Takes these fields.
pub(super) fn read(reader: &mut FieldReader) -> Origin {
    let job_type = reader.filled("jobType");
    if let Some(name) = &job_type
        && named_kind(name).is_none()
    {
        let problem = "it must be one of: SIMPLE, DATAFLOW, SCRIPT";
        reader.note(DefectKind::NotAllowed, "jobType", &name.as_str().into(), problem, "choose one of them");
    }
    let class = one_of(reader, ["elasticJobClass", "jobClass"]);
    let element_type = reader.filled("elasticJobType");
    if let (Some(class), Some(_)) = (&class, &element_type) {
        let (value, problem) = (Value::from(class.as_str()), "a job has a class or a type");
        let remedy = "keep one of `elasticJobClass` and `elasticJobType`";
        reader.note(DefectKind::Conflict, "elasticJobClass", &value, problem, remedy);
    }
    Origin {
        class,
        named_type: job_type.or(element_type),
        streaming: reader.flag("streamingProcess"),
        command_line: reader.filled("scriptCommandLine"),
    }
}

fn one_of(reader: &mut FieldReader, names: [&str; 2]) -> Option<String> {
    let [first, second] = names.map(|name| reader.filled(name));
    if let (Some(first), Some(second)) = (&first, &second)
        && first != second
    {
        let problem = format!("`{}` says {second:?}", names[1]);
        let value = Value::from(first.as_str());
        reader.note(DefectKind::Conflict, names[0], &value, &problem, "keep one of the two");
    }
    first.or(second)
}

impl Origin {
    /// Moves the command line and streaming to where 3.x has them.
    pub(super) fn properties(&mut self, fields: &mut ConfigFields, reader: &mut FieldReader) {
        let kind = self.named_type.as_deref().and_then(named_kind);
        let plain = matches!(kind, Some(JobKind::Simple | JobKind::Command));
        if plain && self.streaming == Some(true) {
            let problem = "only a dataflow streams";
            let remedy = "set `jobType: DATAFLOW` or `streamingProcess: false`";
            reader.note(DefectKind::Conflict, "streamingProcess", &true.into(), problem, remedy);
        }
        let streaming = self.streaming.take().filter(|_| !plain).map(|streaming| streaming.to_string());
        let given = [
            ("streamingProcess", STREAMING, streaming),
            ("scriptCommandLine", COMMAND_LINE, self.command_line.take()),
        ];
        for (field, property, value) in given {
            let Some(value) = value else { continue };
            if fields.props.get(property).is_some_and(|other| *other != value) {
                let problem = format!("the property {property} says something else");
                let value = Value::from(value.as_str());
                reader.note(DefectKind::Conflict, field, &value, &problem, "keep one of the two");
            }
            fields.props.insert(property.to_owned(), value);
        }
    }

    /// The kind: the policy's, if it names one and Elastic-Job's fields do not contradict it.
    pub(super) fn kind(
        &self,
        fields: &ConfigFields,
        own: Option<JobKind>,
        streaming_named: bool,
        reader: &mut FieldReader,
    ) -> JobKind {
        let implied = implied_kind(fields, self.named_type.as_deref().unwrap_or_default());
        let (Some(own), Some(implied)) = (own, implied) else {
            return own.or(implied).unwrap_or_default();
        };
        if own.as_str() != implied.as_str() {
            let problem = format!("Elastic-Job's fields say {}", implied.as_str());
            let value = Value::from(own.as_str());
            reader.note(DefectKind::Conflict, "rosterd.kind", &value, &problem, "keep one of the two");
        }
        if streaming_named { own } else { implied }
    }

    /// The handler of a job without one: Elastic-Job's class or type, else the job's own name.
    pub(super) fn handler(&self, kind: JobKind, fields: &ConfigFields) -> String {
        let own_type = self.named_type.as_deref().filter(|name| named_kind(name).is_none());
        let command = (kind == JobKind::Command).then_some("SCRIPT");
        let named = self.class.as_deref().map(str::trim).or(own_type).or(command);
        named.map_or_else(|| fields.job_name.to_string(), str::to_owned)
    }
}
