//! Elicitation: a form of the server becomes a series of clarifications, and their answers the content of the form.

use aaep_proto::confirm::Clarification;
use aaep_proto::message::Response;
use serde_json::{Map, Value, json};

use crate::describe::{sentence, shorten};

/// How often a field is asked again after an answer that does not fit.
const MAX_RETRIES: u32 = 3;

/// Most questions of one form.
const MAX_FIELDS: usize = 64;

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
struct FormField {
    key: String,
    title: String,
    description: Option<String>,
    required: bool,
    kind: FieldKind,
}

#[derive(Clone, Debug, PartialEq)]
enum FieldKind {
    Boolean,
    Number {
        integer: bool,
        min: Option<f64>,
        max: Option<f64>,
    },
    Choice(Vec<(String, String)>),
    /// Each option is a question of its own, because a clarification has one answer.
    Several(Vec<(String, String)>),
    Text {
        default: Option<String>,
        min: u64,
        max: u64,
    },
}

/// What is asked next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormStep {
    /// Whether the user wants to answer at all, or to open the address.
    Consent,
    Field(usize),
    Option(usize, usize),
    Done,
}

/// A form while the user fills it in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Form {
    message: String,
    url: Option<String>,
    fields: Vec<FormField>,
    step: FormStep,
    content: Map<String, Value>,
    selected: Vec<Value>,
    retries: u32,
    problem: Option<String>,
}

/// What an answer leads to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FormProgress {
    /// Ask [`Form::question`] next.
    Continue,
    /// The form has ended with this result for the server.
    Ended(Value),
}

impl Form {
    /// Reads the parameters of `elicitation/create`.
    pub(crate) fn new(params: &Value) -> Form {
        let message = params.get("message").and_then(Value::as_str).unwrap_or("The server asks for information");
        let url = params.get("url").and_then(Value::as_str).map(str::to_owned);
        let schema = &params["requestedSchema"];
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let field = |(key, schema): (&String, &Value)| FormField {
            key: key.clone(),
            title: shorten(schema["title"].as_str().unwrap_or(key), 200),
            description: schema["description"].as_str().map(|text| shorten(text, 1000)),
            required: required.contains(&key.as_str()),
            kind: FieldKind::of(schema),
        };
        let fields: Vec<FormField> = properties.iter().take(MAX_FIELDS).map(field).collect();
        let step = if url.is_none() && fields.len() == 1 { FormStep::Field(0) } else { FormStep::Consent };
        let (content, selected) = (Map::new(), Vec::new());
        Form {
            message: sentence(&shorten(message, 2000)),
            url,
            fields,
            step,
            content,
            selected,
            retries: 0,
            problem: None,
        }
    }

    /// Returns the next question.
    pub(crate) fn question(&self) -> Clarification {
        let question = match self.step {
            FormStep::Consent | FormStep::Done => self.consent_question(),
            FormStep::Field(at) => self.field_question(&self.fields[at]),
            FormStep::Option(at, option) => match &self.fields[at].kind {
                FieldKind::Several(options) => {
                    Clarification::yes_no(format!("{}: {}?", self.fields[at].title, options[option].1))
                }
                _ => self.field_question(&self.fields[at]),
            },
        };
        match &self.problem {
            Some(problem) => question.context(problem.clone()),
            None => question,
        }
    }

    fn consent_question(&self) -> Clarification {
        let message = &self.message;
        match (&self.url, self.fields.len()) {
            (Some(url), _) => Clarification::yes_no(format!("{message} Agree to open {}?", shorten(url, 500))),
            (None, 0) => Clarification::yes_no(message.clone()),
            (None, count) => Clarification::yes_no(format!("{message} Answer {count} questions?")),
        }
    }

    fn field_question(&self, field: &FormField) -> Clarification {
        let optional = if field.required { "" } else { " (optional)" };
        let ask = if self.fields.len() == 1 {
            format!("{} {}{optional}?", self.message, field.title)
        } else {
            format!("{}{optional}?", field.title)
        };
        let question = match &field.kind {
            FieldKind::Boolean => Clarification::yes_no(ask),
            FieldKind::Number { .. } => Clarification::numeric(ask),
            FieldKind::Choice(choices) => Clarification::choice(ask, choices.clone()),
            FieldKind::Several(_) => Clarification::yes_no(ask),
            FieldKind::Text { default, .. } => match default {
                Some(default) => Clarification::freetext(ask).context(format!("Suggested answer: {default}")),
                None => Clarification::freetext(ask),
            },
        };
        match (&self.problem, &field.description) {
            (None, Some(description)) => question.context(description.clone()),
            _ => question,
        }
    }

    /// Takes the answer to the last question, or `None` if there was none in time.
    pub(crate) fn answer(&mut self, response: Option<&Response>) -> FormProgress {
        let Some(response) = response else { return FormProgress::Ended(json!({"action": "cancel"})) };
        self.problem = None;
        match self.step {
            FormStep::Consent => match response {
                Response::Boolean(true) if self.url.is_some() => {
                    return FormProgress::Ended(json!({"action": "accept"}));
                }
                Response::Boolean(true) => self.go_to(0),
                _ => return FormProgress::Ended(json!({"action": "decline"})),
            },
            FormStep::Field(at) => match self.fields[at].kind.read(response, self.fields[at].required) {
                Ok(value) => {
                    if let Some(value) = value {
                        self.content.insert(self.fields[at].key.clone(), value);
                    }
                    self.go_to(at + 1);
                }
                Err(_) if self.retries >= MAX_RETRIES => return FormProgress::Ended(json!({"action": "cancel"})),
                Err(problem) => {
                    self.retries += 1;
                    self.problem = Some(problem);
                }
            },
            FormStep::Option(at, option) => self.take_option(at, option, response),
            FormStep::Done => {}
        }
        if self.step == FormStep::Done {
            return FormProgress::Ended(json!({"action": "accept", "content": self.content}));
        }
        FormProgress::Continue
    }

    fn take_option(&mut self, at: usize, option: usize, response: &Response) {
        let FieldKind::Several(options) = &self.fields[at].kind else { return };
        if *response == Response::Boolean(true) {
            self.selected.push(options[option].0.clone().into());
        }
        if option + 1 < options.len() {
            self.step = FormStep::Option(at, option + 1);
        } else {
            let selected = std::mem::take(&mut self.selected);
            self.content.insert(self.fields[at].key.clone(), selected.into());
            self.go_to(at + 1);
        }
    }

    fn go_to(&mut self, at: usize) {
        self.retries = 0;
        self.step = match self.fields.get(at).map(|field| &field.kind) {
            None => FormStep::Done,
            Some(FieldKind::Several(options)) if !options.is_empty() => FormStep::Option(at, 0),
            Some(_) => FormStep::Field(at),
        };
    }
}

impl FieldKind {
    fn of(schema: &Value) -> FieldKind {
        let number = |name: &str| schema[name].as_f64();
        match schema["type"].as_str() {
            Some("boolean") => FieldKind::Boolean,
            Some(kind @ ("number" | "integer")) => {
                FieldKind::Number { integer: kind == "integer", min: number("minimum"), max: number("maximum") }
            }
            Some("array") => FieldKind::Several(options(&schema["items"])),
            _ => {
                let choices = options(schema);
                let usable = |(value, _): &(String, String)| value.chars().count() <= 256 && !value.is_empty();
                if (2..=32).contains(&choices.len()) && choices.iter().all(usable) {
                    return FieldKind::Choice(choices);
                }
                let default =
                    schema["default"].as_str().filter(|text| !text.is_empty()).map(|text| shorten(text, 1000));
                let bound = |name: &str, absent| schema[name].as_u64().unwrap_or(absent);
                FieldKind::Text { default, min: bound("minLength", 0), max: bound("maxLength", u64::MAX) }
            }
        }
    }

    /// Returns the value for the form, `None` for an optional field that was left empty, or what to tell the user.
    fn read(&self, response: &Response, required: bool) -> Result<Option<Value>, String> {
        match (self, response) {
            (FieldKind::Boolean | FieldKind::Several(_), Response::Boolean(yes)) => Ok(Some(json!(yes))),
            (FieldKind::Number { integer, min, max }, Response::Number(number)) => {
                let bounds = min.is_none_or(|min| *number >= min) && max.is_none_or(|max| *number <= max);
                if *integer && number.fract() != 0.0 {
                    Err("The answer must be a whole number.".to_owned())
                } else if !bounds {
                    let limit = |limit: &Option<f64>| limit.map_or_else(|| "any".to_owned(), |limit| limit.to_string());
                    Err(format!("The answer must be between {} and {}.", limit(min), limit(max)))
                } else if *integer && number.abs() < 9e15 {
                    Ok(Some(json!(*number as i64)))
                } else {
                    Ok(Some(json!(number)))
                }
            }
            (FieldKind::Choice(_), Response::Text(text)) => Ok(Some(json!(text))),
            (FieldKind::Text { min, max, .. }, Response::Text(text)) => {
                let length = text.chars().count() as u64;
                if length == 0 && !required {
                    Ok(None)
                } else if length < *min || length > *max {
                    Err(format!("The answer must have between {min} and {max} characters."))
                } else {
                    Ok(Some(json!(text)))
                }
            }
            _ => Err("The answer has the wrong kind.".to_owned()),
        }
    }
}

/// Returns the values and labels of `enum`, `oneOf` or `anyOf`.
fn options(schema: &Value) -> Vec<(String, String)> {
    let label = |text: &str| shorten(text, 200);
    if let Some(values) = schema["enum"].as_array() {
        let names = schema["enumNames"].as_array();
        let named = |(at, value): (usize, &Value)| {
            let value = value.as_str()?;
            let name = names.and_then(|names| names.get(at)?.as_str()).unwrap_or(value);
            Some((value.to_owned(), label(name)))
        };
        return values.iter().enumerate().filter_map(named).collect();
    }
    let list = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
    let titled = |option: &Value| {
        let value = option["const"].as_str()?;
        Some((value.to_owned(), label(option["title"].as_str().unwrap_or(value))))
    };
    list.into_iter().flatten().filter_map(titled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yes() -> Response {
        Response::Boolean(true)
    }

    fn text(text: &str) -> Response {
        Response::Text(text.to_owned())
    }

    #[test]
    fn form_of_several_fields_asks_first_and_collects_all() {
        let mut form = Form::new(&json!({"message": "Who are you?", "requestedSchema": {"properties": {
            "a_name": {"type": "string"},
            "b_age": {"type": "integer", "minimum": 18},
            "c_pet": {"type": "string", "enum": ["cat", "dog"]},
            "d_likes": {"type": "array", "items": {"enum": ["x", "y"]}},
            "e_ok": {"type": "boolean"},
        }, "required": ["a_name"]}}));
        assert_eq!(form.question(), Clarification::yes_no("Who are you? Answer 5 questions?"));
        let answers = [
            yes(),
            text("Ada"),
            Response::Number(17.0),
            Response::Number(36.0),
            text("cat"),
            Response::Boolean(false),
            yes(),
        ];
        for answer in answers {
            assert_eq!(form.answer(Some(&answer)), FormProgress::Continue);
        }
        let content = json!({"a_name": "Ada", "b_age": 36, "c_pet": "cat", "d_likes": ["y"], "e_ok": true});
        let ended = form.answer(Some(&yes()));
        assert_eq!(ended, FormProgress::Ended(json!({"action": "accept", "content": content})));
    }

    #[test]
    fn no_is_decline_and_silence_is_cancel() {
        let params = json!({"message": "Sure?", "requestedSchema": {"properties": {}}});
        let ended = |response: Option<Response>| Form::new(&params).answer(response.as_ref());
        assert_eq!(ended(Some(yes())), FormProgress::Ended(json!({"action": "accept", "content": {}})));
        assert_eq!(ended(Some(Response::Boolean(false))), FormProgress::Ended(json!({"action": "decline"})));
        assert_eq!(ended(None), FormProgress::Ended(json!({"action": "cancel"})));
    }

    #[test]
    fn address_is_part_of_the_question() {
        let mut form = Form::new(&json!({"mode": "url", "message": "Log in", "url": "https://a.example/x"}));
        assert_eq!(form.question(), Clarification::yes_no("Log in. Agree to open https://a.example/x?"));
        assert_eq!(form.answer(Some(&yes())), FormProgress::Ended(json!({"action": "accept"})));
    }

    #[test]
    fn wrong_answers_are_asked_again_a_few_times() {
        let mut form =
            Form::new(&json!({"message": "m", "requestedSchema": {"properties": {"n": {"type": "integer"}}}}));
        let wrong = Response::Number(0.5);
        for _ in 0..MAX_RETRIES {
            assert_eq!(form.answer(Some(&wrong)), FormProgress::Continue);
        }
        assert_eq!(form.answer(Some(&wrong)), FormProgress::Ended(json!({"action": "cancel"})));
    }
}
