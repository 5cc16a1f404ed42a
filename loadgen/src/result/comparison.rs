//! Compares results: each number with its ratio to the number in the first result.

use std::path::{Path, PathBuf};

use super::{Document, Field, Group, align, new_table, show};

/// A result and its name in the comparison.
#[derive(Debug)]
pub(crate) struct Compared {
    pub(crate) name: String,
    pub(crate) document: Document,
}

/// Values at one path, one for each result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ComparisonRow {
    pub(crate) path: String,
    pub(crate) cells: Vec<ComparisonCell>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ComparisonCell {
    pub(crate) text: String,
    /// Ratio to the base. `None` for the base itself, and if no ratio can be computed.
    pub(crate) ratio: Option<f64>,
}

/// Returns the names of the files. If these are equal, as in `a/result.json` and `b/result.json`, returns the
/// names of their directories, or else the whole paths.
pub(crate) fn names(paths: &[PathBuf]) -> Vec<String> {
    let shown = |path: &Path| path.display().to_string();
    let stem = |path: &PathBuf| path.file_stem().map_or_else(|| shown(path), |it| it.display().to_string());
    let parent = |path: &PathBuf| {
        let parent = path.parent().and_then(Path::file_name);
        parent.map_or_else(|| shown(path), |it| it.display().to_string())
    };
    let whole = |path: &PathBuf| shown(path);
    let ways: [&dyn Fn(&PathBuf) -> String; 3] = [&stem, &parent, &whole];
    let named = ways.into_iter().map(|way| paths.iter().map(way).collect::<Vec<_>>());
    let all_differ =
        |names: &Vec<String>| (1..names.len()).all(|index| !names[..index].contains(&names[index]));
    // Fall back to whole paths even if they are equal: a file may be compared with itself.
    named.into_iter().find(all_differ).unwrap_or_else(|| paths.iter().map(whole).collect())
}

/// Returns the settings that differ, then every number that at least one of the results has.
pub(crate) fn rows(results: &[Compared]) -> Vec<ComparisonRow> {
    let flat = |fields: &mut dyn Iterator<Item = (&str, &Field)>| {
        let mut flat = Vec::new();
        fields.for_each(|(name, field)| add_flat(name, field, &mut flat));
        flat
    };
    let settings: Vec<_> = results.iter().map(|it| flat(&mut it.document.settings())).collect();
    let numbers: Vec<_> = results.iter().map(|it| flat(&mut it.document.numbers())).collect();
    let mut rows = join(&settings);
    rows.retain(|row| row.cells.iter().any(|cell| cell.text != row.cells[0].text));
    for row in &mut rows {
        row.cells.iter_mut().for_each(|cell| cell.ratio = None);
    }
    rows.extend(join(&numbers));
    rows
}

type Flat = Vec<(String, Field)>;

fn add_flat(path: &str, field: &Field, flat: &mut Flat) {
    match field {
        Field::Group(group) => {
            for (name, field) in group.iter() {
                add_flat(&format!("{path}.{name}"), field, flat);
            }
        }
        field => flat.push((path.to_owned(), field.clone())),
    }
}

/// Returns one row per path. Each row has one cell per result, in the same order.
fn join(results: &[Flat]) -> Vec<ComparisonRow> {
    let mut merged = Group::default();
    for (path, field) in results.iter().flatten() {
        if merged.get(path).is_none() {
            merged.push(path.clone(), field.clone());
        }
    }
    let find = |flat: &Flat, path: &str| {
        flat.iter().find(|(known, _)| known == path).map(|(_, field)| field.clone())
    };
    let row = |path: &str| {
        let fields: Vec<_> = results.iter().map(|flat| find(flat, path).unwrap_or(Field::Null)).collect();
        let base = fields[0].as_number();
        let cell = |(index, field): (usize, &Field)| ComparisonCell {
            text: show(field),
            ratio: field.as_number().zip(base).filter(|_| index > 0).and_then(|(it, base)| ratio(it, base)),
        };
        ComparisonRow { path: path.to_owned(), cells: fields.iter().enumerate().map(cell).collect() }
    };
    merged.iter().map(|(path, _)| row(path)).collect()
}

fn ratio(number: f64, base: f64) -> Option<f64> {
    if number == 0.0 && base == 0.0 {
        Some(1.0)
    } else {
        Some(number / base).filter(|ratio| ratio.is_finite())
    }
}

pub(crate) fn to_table(results: &[Compared]) -> String {
    let mut table = new_table();
    let mut header = vec![String::new()];
    for (index, Compared { name, .. }) in results.iter().enumerate() {
        header.push(name.clone());
        header.extend((index > 0).then(|| "ratio".to_owned()));
    }
    table.set_header(header);
    for ComparisonRow { path, cells } in rows(results) {
        let mut line = vec![path];
        for (index, ComparisonCell { text, ratio }) in cells.into_iter().enumerate() {
            line.push(text);
            line.extend((index > 0).then(|| show_ratio(ratio)));
        }
        table.add_row(line);
    }
    align(&mut table);
    table.to_string()
}

pub(crate) fn show_ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}x"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn compared(name: &str, json: &str) -> Compared {
        let file = tempfile::NamedTempFile::new().expect("a temporary file can be written");
        fs::write(file.path(), json).expect("a temporary file can be written");
        Compared {
            name: name.to_owned(),
            document: Document::read(file.path()).expect("it is a result message"),
        }
    }

    #[test]
    fn numbers_have_ratios_to_the_first() {
        let results = [
            compared(
                "a",
                r#"{"format":1,"target":"x","rate":1.0,"started_at":"t","errors":0,"c":{"p50":2.0},"old":1}"#,
            ),
            compared(
                "b",
                r#"{"format":1,"target":"x","rate":2.0,"started_at":"t","errors":0,"c":{"p50":3.0},"new":1}"#,
            ),
        ];
        let rows = rows(&results);
        let shown: Vec<_> = rows
            .iter()
            .map(|row| (row.path.as_str(), row.cells[1].text.as_str(), show_ratio(row.cells[1].ratio)))
            .collect();
        assert_eq!(
            shown,
            [
                ("rate", "2.000", String::new()),
                ("started_at", "t", String::new()),
                ("errors", "0", "1.00x".to_owned()),
                ("c.p50", "3.000", "1.50x".to_owned()),
                ("old", "-", String::new()),
                ("new", "1", String::new()),
            ]
        );
        assert!(to_table(&results).contains("1.50x"));
    }

    #[test]
    fn results_have_distinct_names() {
        let names = |paths: &[&str]| names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(names(&["runs/a.json", "runs/b.json"]), ["a", "b"]);
        assert_eq!(names(&["a/result.json", "b/result.json"]), ["a", "b"]);
        assert_eq!(names(&["a/x/r.json", "b/x/r.json"]), ["a/x/r.json", "b/x/r.json"]);
        assert_eq!(names(&["r.json", "r.json"]), ["r.json", "r.json"]);
    }
}
