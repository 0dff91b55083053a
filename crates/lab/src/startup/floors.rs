//! What weights take at least, whatever the engine: bytes ÷ bandwidth.

use servelab_spec::coldstart::{FloorRow, Floors, FloorsSpec, MAX_FLOORS};
use servelab_spec::validate::SpecError;

/// The table of `spec`: a row for every model in every precision, a column for every source.
///
/// # Errors
/// Too many of them, or a number that is none.
pub fn floors(spec: &FloorsSpec) -> Result<Floors, SpecError> {
    let lengths = [
        ("floors.models_b", spec.models_b.len()),
        ("floors.bits", spec.bits.len()),
        ("floors.sources", spec.sources.len()),
    ];
    for (field, length) in lengths {
        if length == 0 || length > MAX_FLOORS {
            return Err(SpecError::new(
                field,
                format!("a list of {length}"),
                format!("accepted are 1 to {MAX_FLOORS}"),
            ));
        }
    }
    let range = |field: &str, value: f64, (low, high): (f64, f64), unit: &str| {
        if value >= low && value <= high {
            return Ok(());
        }
        Err(SpecError::new(field, value, format!("accepted is a number from {low} to {high} ({unit})")))
    };
    for &model in &spec.models_b {
        range("floors.models_b", model, (0.000_001, 10_000.0), "billions of parameters")?;
    }
    for &bits in &spec.bits {
        range("floors.bits", bits, (1.0, 64.0), "bits")?;
    }
    for source in &spec.sources {
        range("floors.sources", source.gb_s, (0.001, 10_000.0), "GB/s")?;
    }
    let row = |model_b: f64, bits: f64| {
        let gb = model_b * bits / 8.0;
        FloorRow { model_b, bits, gb, seconds: spec.sources.iter().map(|source| gb / source.gb_s).collect() }
    };
    let rows = spec.models_b.iter().flat_map(|&model| spec.bits.iter().map(move |&bits| row(model, bits)));
    Ok(Floors { sources: spec.sources.clone(), rows: rows.collect() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use servelab_spec::coldstart::FloorSource;

    /// A number as it was printed, and the place of its last digit.
    type Printed = (f64, f64);

    #[test]
    fn the_published_table_comes_out_to_its_printed_digits() {
        let table = floors(&FloorsSpec::default()).unwrap();
        let printed: [(f64, f64, [Printed; 5]); 4] = [
            (8.0, 16.0, [(52.0, 1.0), (15.0, 1.0), (5.0, 1.0), (0.8, 0.1), (0.3, 0.1)]),
            (70.0, 16.0, [(452.0, 1.0), (133.0, 1.0), (46.0, 1.0), (7.0, 1.0), (2.8, 0.1)]),
            (70.0, 8.0, [(226.0, 1.0), (67.0, 1.0), (23.0, 1.0), (3.5, 0.1), (1.4, 0.1)]),
            (70.0, 4.0, [(113.0, 1.0), (33.0, 1.0), (11.0, 1.0), (1.8, 0.1), (0.7, 0.1)]),
        ];
        for (model, bits, expected) in printed {
            let row = table.rows.iter().find(|row| (row.model_b, row.bits) == (model, bits)).unwrap();
            for ((&seconds, (printed, place)), source) in row.seconds.iter().zip(expected).zip(&table.sources) {
                assert!(
                    (seconds - printed).abs() <= place / 2.0 + 1e-9,
                    "{model} B, {bits} bits, {}: {seconds}",
                    source.name
                );
            }
        }
        assert_eq!(table.rows.len(), 6);
        assert!(table.sources.iter().all(|source| !source.source.is_empty()));
    }

    #[test]
    fn nonsense_is_refused_at_its_field() {
        let refused = |change: fn(&mut FloorsSpec)| {
            let mut spec = FloorsSpec::default();
            change(&mut spec);
            floors(&spec).unwrap_err().field
        };
        assert_eq!(refused(|s| s.models_b.clear()), "floors.models_b");
        assert_eq!(refused(|s| s.models_b[0] = -1.0), "floors.models_b");
        assert_eq!(refused(|s| s.bits = vec![16.0; 13]), "floors.bits");
        assert_eq!(refused(|s| s.bits[0] = f64::NAN), "floors.bits");
        assert_eq!(refused(|s| s.sources[0].gb_s = 0.0), "floors.sources");
        let own = FloorSource { name: "mine".into(), gb_s: 2.0, source: String::new() };
        let table = floors(&FloorsSpec { models_b: vec![3.0], bits: vec![8.0], sources: vec![own] }).unwrap();
        assert_eq!((table.rows[0].gb, table.rows[0].seconds[0]), (3.0, 1.5));
    }
}
