//! Values cross as they are, and what does not fit is refused with what was expected.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::catalog::ParamKind;
use crate::experiment::{Spec, WorkloadSpec};
use crate::protocol::{Chart, FromWorker, RequestStory, Series, ToWorker};
use crate::sweep::{Axis, AxisValues};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

/// A kind of everything that the schema's types are made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Mixed {
    whole: u64,
    signed: i32,
    small: u16,
    real: f64,
    on: bool,
    text: String,
    maybe: Option<Box<Mixed>>,
    list: Vec<f64>,
    pair: (f64, u32),
    four: [f64; 4],
    map: std::collections::BTreeMap<String, f64>,
    kind: Kinds,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    kinds: Vec<Kinds>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kinds {
    #[default]
    Bare,
    One(u32),
    Two(u32, String),
    Named {
        x: Option<f64>,
    },
}

fn kinds() -> impl Strategy<Value = Kinds> {
    prop_oneof![
        Just(Kinds::Bare),
        any::<u32>().prop_map(Kinds::One),
        (any::<u32>(), any::<String>()).prop_map(|(a, b)| Kinds::Two(a, b)),
        proptest::option::of(-1e300..1e300).prop_map(|x| Kinds::Named { x }),
    ]
}

prop_compose! {
    fn mixed()(
        (whole, signed, small, on) in any::<(u64, i32, u16, bool)>(),
        text in any::<String>(),
        real in -1e300..1e300f64,
        list in proptest::collection::vec(-1e9..1e9f64, 0..5),
        map in proptest::collection::btree_map(any::<String>(), -1e9..1e9f64, 0..4),
        kind in kinds(),
        kinds in proptest::collection::vec(kinds(), 0..4),
        nested in any::<bool>(),
    ) -> Mixed {
        let of = Mixed { whole, signed, small, real, on, text, list, map, kind, kinds, ..Mixed::default() };
        let inner = nested.then(|| Box::new(of.clone()));
        Mixed { pair: (real, signed.unsigned_abs()), four: [real; 4], maybe: inner, ..of }
    }
}

proptest! {
    /// serde's own JSON reader is the second opinion: both read the same text to the same thing, and both are what was written.
    #[test]
    fn what_was_written_is_read(of in mixed()) {
        let text = to_text(&of).unwrap();
        prop_assert_eq!(&text, &serde_json::to_string(&of).unwrap());
        prop_assert_eq!(&from_text::<Mixed>(&text).unwrap(), &of);
        prop_assert_eq!(&from_text::<Mixed>(&to_pretty(&of).unwrap()).unwrap(), &of);
        prop_assert_eq!(serde_json::from_str::<Mixed>(&text).unwrap(), of);
    }

    /// A value with one of its parts replaced by another is refused or read, never a panic; and what is read here, serde reads to the same.
    #[test]
    fn a_changed_value_is_refused_or_read_alike(of in mixed(), other in mixed(), at in any::<(usize, usize)>()) {
        let (mut value, other) = (serde_json::to_value(&of).unwrap(), serde_json::to_value(&other).unwrap());
        let (fields, others) = (value.as_object_mut().unwrap(), other.as_object().unwrap());
        let (into, from) = (at.0 % fields.len(), at.1 % others.len());
        *fields.values_mut().nth(into).unwrap() = others.values().nth(from).unwrap().clone();
        if let Ok(read) = from_value::<Mixed>(value.clone()) {
            prop_assert_eq!(serde_json::from_value::<Mixed>(value).unwrap(), read);
        }
    }
}

#[test]
fn a_number_without_a_value_crosses_in_messages_only() {
    let series = Series { y: vec![1.0, f64::NAN], x: vec![0.5, f64::INFINITY], ..Series::default() };
    let chart = Box::new(Chart { series: vec![series], ..Chart::default() });
    let text = to_text(&FromWorker::Chart { run: 3, chart }).unwrap();
    let FromWorker::Chart { run: 3, chart } = from_text(&text).unwrap() else { panic!("another message: {text}") };
    assert!(chart.series[0].y[1].is_nan() && chart.series[0].x[1].is_nan() && chart.series[0].y[0] == 1.0);
    let error = from_value::<f64>(Value::Null).unwrap_err().to_string();
    assert!(error.contains("expected f64"), "{error}");
}

#[test]
fn messages_come_back_as_themselves() {
    let spec = Box::new(Spec { workload: WorkloadSpec::of_kind("sessions").unwrap(), ..Spec::default() });
    let run = ToWorker::Run { run: 7, spec };
    assert_eq!(from_text::<ToWorker>(&to_text(&run).unwrap()).unwrap(), run);
    let story = RequestStory { tenant: "\u{2028}\"\\ä".into(), queue_s: Some(0.1 + 0.2), ..RequestStory::default() };
    let told = FromWorker::Request { run: u32::MAX, story: Box::new(story) };
    assert_eq!(from_text::<FromWorker>(&to_text(&told).unwrap()).unwrap(), told);
    for (text, wrong) in
        [("{\"nothing\":{}}", "unknown variant"), ("[]", "expected"), ("{\"run\":{}}", "missing field")]
    {
        let error = from_text::<ToWorker>(text).unwrap_err().to_string();
        assert!(error.contains(wrong), "{text}: {error}");
    }
}

#[test]
fn mistakes_are_named_with_what_was_expected() {
    for (text, wrong) in [
        ("{\"seed\":\"x\"}", "invalid type: string \"x\", expected u64"),
        ("{\"seed\":1.5}", "invalid type: floating point `1.5`, expected u64"),
        ("{\"seed\":-1}", "invalid value: integer `-1`, expected u64"),
        ("{\"seet\":1}", "unknown field `seet`"),
        ("{\"workload\":{\"rate\":1}}", "missing field `kind`"),
        ("{\"workload\":{\"kind\":\"none\"}}", "unknown variant `none`, expected one of `book_trace`, `multi_tenant`"),
        ("{\"workload\":{\"kind\":\"book_trace\",\"rate\":1}}", "unknown field `rate`"),
        ("{\"workload\":{\"kind\":\"sessions\",\"rote\":1}}", "unknown field `rote`"),
        ("{\"workload\":{\"kind\":3}}", "kind is 3, expected a string"),
        ("{\"workload\":[]}", "expected a map"),
        ("{\"policies\":{}}", "expected a sequence"),
        ("[]", "expected struct Spec"),
    ] {
        for error in [
            from_text::<Spec>(text).unwrap_err().to_string(),
            // The other reader of the same types.
            if text == "[]" { continue } else { serde_json::from_str::<Spec>(text).unwrap_err().to_string() },
        ] {
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }
}

#[test]
fn values_of_an_axis_are_a_list_or_a_range() {
    let read = |values: &str| {
        let text = format!("{{\"key\":\"seed\",\"values\":{values}}}");
        let axis: Axis = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        assert_eq!(from_text::<Axis>(&to_text(&axis).unwrap()).unwrap(), axis);
        Ok::<_, String>(axis.values)
    };
    assert!(matches!(read("[1,\"on\",2.5]"), Ok(AxisValues::List(list)) if list.len() == 3));
    assert!(matches!(read("{\"from\":1,\"to\":2,\"steps\":3}"), Ok(AxisValues::Range(range)) if range.steps == 3));
    assert!(read("[null]").unwrap_err().contains("null is no value of an axis"));
    assert!(read("{\"from\":1,\"to\":2}").unwrap_err().contains("missing field `steps`"));
    assert!(read("4").unwrap_err().contains("expected struct AxisRange"));
}

#[test]
fn a_kind_with_something_inside_and_one_without() {
    assert_eq!(from_value::<ParamKind>("switch".into()).unwrap(), ParamKind::Switch);
    let choice = ParamKind::Choice(vec!["a".into()]);
    assert_eq!(from_text::<ParamKind>(&to_text(&choice).unwrap()).unwrap(), choice);
    assert!(from_text::<ParamKind>("{\"switch\":1}").is_err());
}
