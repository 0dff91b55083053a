//! Priority classes as people type them: `interactive(priority=10,weight=4),batch(priority=-1,tenants=C E-H)`.

use crate::named::quote;
use crate::validate::SpecError;

/// A class of tenants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassSpec {
    /// Its name.
    pub name: String,
    /// Higher goes first; below 0 may be shed. 0 unless given.
    pub priority: i32,
    /// Its share of turns in the weighted order, at least 1; 1 unless given.
    pub weight: u32,
    /// Whose requests belong to it, from 0; none: everybody's who is in no other class.
    pub tenants: Vec<u32>,
}

/// The field that has them.
const FIELD: &str = "gateway.classes";

const FORM: &str = "accepted is a list like interactive(priority=10),batch(priority=-1,tenants=C E-H), tenants by their letters, or nothing";

/// Most classes.
pub const MAX_CLASSES: usize = 16;

/// Most tenants there are.
const MAX_TENANTS: u32 = 1000;

fn wrong(found: &str) -> SpecError {
    SpecError::new(FIELD, quote(found), FORM)
}

/// Reads a list of classes; nothing at all is an empty list.
///
/// # Errors
/// Anything else, saying what the form is.
pub fn parse_classes(text: &str) -> Result<Vec<ClassSpec>, SpecError> {
    let mut classes: Vec<ClassSpec> = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = rest.find(['(', ',', ')']).unwrap_or(rest.len());
        let name = rest[..end].trim();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 32 || !name.chars().all(plain) {
            return Err(wrong(rest));
        }
        let mut class = ClassSpec { name: name.into(), priority: 0, weight: 1, tenants: vec![] };
        rest = &rest[end..];
        if let Some(inside) = rest.strip_prefix('(') {
            let close = inside.find(')').ok_or_else(|| wrong(text))?;
            for pair in inside[..close].split(',').filter(|pair| !pair.trim().is_empty()) {
                set(&mut class, pair)?;
            }
            rest = inside[close + 1..].trim_start();
        }
        if classes.iter().any(|other| other.name == class.name) {
            return Err(SpecError::new(FIELD, quote(&class.name), "accepted is each class once"));
        }
        classes.push(class);
        if classes.len() > MAX_CLASSES {
            let accepted = format!("accepted are at most {MAX_CLASSES} classes");
            return Err(SpecError::new(FIELD, "more than that", accepted));
        }
        match rest.strip_prefix(',') {
            Some(more) if !more.trim().is_empty() => rest = more.trim_start(),
            None if rest.is_empty() => {}
            _ => return Err(wrong(rest)),
        }
    }
    let mut all: Vec<u32> = classes.iter().flat_map(|class| class.tenants.iter().copied()).collect();
    all.sort_unstable();
    match all.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => {
            let found = format!("tenant {} in two classes", letters(twice[0]));
            Err(SpecError::new(FIELD, found, "accepted is each tenant in one class"))
        }
        None => Ok(classes),
    }
}

fn set(class: &mut ClassSpec, pair: &str) -> Result<(), SpecError> {
    let (param, value) = pair.split_once('=').ok_or_else(|| wrong(pair))?;
    let value = value.trim();
    match param.trim() {
        "priority" => {
            let priority = value.parse().ok().filter(|priority| (-1000..=1000).contains(priority));
            class.priority = priority.ok_or_else(|| {
                SpecError::new(FIELD, quote(pair), "accepted as a priority is a whole number from -1000 to 1000")
            })?;
        }
        "weight" => {
            let weight = value.parse().ok().filter(|weight| (1..=1000).contains(weight));
            class.weight = weight.ok_or_else(|| {
                SpecError::new(FIELD, quote(pair), "accepted as a weight is a whole number from 1 to 1000")
            })?;
        }
        "tenants" => {
            for part in value.split_whitespace() {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                let tenant = |text: &str| number(text).ok_or_else(|| wrong(part));
                let (first, last) = (tenant(first)?, tenant(last)?);
                if first > last {
                    return Err(wrong(part));
                }
                class.tenants.extend(first..=last);
            }
        }
        _ => return Err(wrong(pair)),
    }
    Ok(())
}

/// The tenant of these letters, counted like the columns of a sheet: A is 0, Z 25, AA 26.
fn number(text: &str) -> Option<u32> {
    let mut number: u32 = 0;
    for c in text.chars() {
        let digit = c.is_ascii_uppercase().then(|| c as u32 - u32::from(b'A') + 1)?;
        number = number.checked_mul(26)?.checked_add(digit)?;
    }
    number.checked_sub(1).filter(|&tenant| tenant < MAX_TENANTS)
}

fn letters(tenant: u32) -> String {
    let mut letters = Vec::new();
    let mut rest = tenant + 1;
    while rest > 0 {
        rest -= 1;
        letters.push((b'A' + (rest % 26) as u8) as char);
        rest /= 26;
    }
    letters.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn class(name: &str, priority: i32, weight: u32, tenants: &[u32]) -> ClassSpec {
        ClassSpec { name: name.into(), priority, weight, tenants: tenants.to_vec() }
    }

    #[test]
    fn lists_are_read() {
        assert_eq!(parse_classes("  ").unwrap(), []);
        assert_eq!(parse_classes("all").unwrap(), [class("all", 0, 1, &[])]);
        let two = parse_classes("interactive(priority=10, weight=4), batch(priority=-1,tenants=C E-G AA)").unwrap();
        assert_eq!(two, [class("interactive", 10, 4, &[]), class("batch", -1, 1, &[2, 4, 5, 6, 26])]);
        for tenant in [0, 25, 26, 51, 701, 702, 999] {
            assert_eq!(number(&letters(tenant)), Some(tenant));
        }
    }

    #[test]
    fn anything_else_is_refused_and_says_why() {
        for (text, part) in [
            ("(", "list like"),
            ("a(", "list like"),
            ("a,,b", "list like"),
            ("a,", "list like"),
            ("A", "list like"),
            ("a(priority)", "list like"),
            ("a(mood=1)", "list like"),
            ("a(priority=2000)", "-1000 to 1000"),
            ("a(weight=0)", "1 to 1000"),
            ("a(tenants=b)", "list like"),
            ("a(tenants=C-A)", "list like"),
            ("a(tenants=ZZZZ)", "list like"),
            ("a(tenants=A),b(tenants=A)", "one class"),
            ("a,a", "each class once"),
        ] {
            let error = parse_classes(text).unwrap_err();
            assert_eq!(error.field, "gateway.classes");
            assert!(error.accepted.contains(part), "{text}: {error}");
        }
        let many: Vec<String> = (0..17).map(|at| format!("c{at}")).collect();
        assert!(parse_classes(&many.join(",")).is_err());
        parse_classes("é(tenants=é-é)").unwrap_err();
    }
}
