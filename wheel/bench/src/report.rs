//! The results of a benchmark, and their output as tables, JSON and plots.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Map, Value, json};

use super::args::Common;
use super::line_plot::Line;
use super::plot::Axes;
use super::statistics::{Spread, short};
use super::{BenchError, machine, plot, table};

/// Results by operation, structure and size. Repeated runs add to the same cell.
#[derive(Debug)]
pub struct BenchReport {
    benchmark: &'static str,
    size: &'static str,
    cells: Vec<ReportCell>,
}

#[derive(Debug)]
struct ReportCell {
    op: String,
    /// Unit of the results: "ns", "bytes".
    unit: &'static str,
    structure: String,
    size: u64,
    figures: Vec<f64>,
    extra: Map<String, Value>,
}

impl BenchReport {
    pub fn new(benchmark: &'static str, size: &'static str) -> BenchReport {
        BenchReport { benchmark, size, cells: Vec::new() }
    }

    pub fn add(
        &mut self,
        op: &str,
        unit: &'static str,
        structure: &str,
        size: u64,
        figure: f64,
    ) -> &mut Map<String, Value> {
        let same = |cell: &ReportCell| cell.op == op && cell.structure == structure && cell.size == size;
        let at = self.cells.iter().position(same).unwrap_or_else(|| {
            let (op, structure) = (op.to_owned(), structure.to_owned());
            self.cells.push(ReportCell { op, unit, structure, size, figures: Vec::new(), extra: Map::new() });
            self.cells.len() - 1
        });
        let cell = &mut self.cells[at];
        cell.figures.push(figure);
        &mut cell.extra
    }

    /// Prints one table per operation and writes the requested files.
    pub fn finish(&self, common: &Common, plots: &[Plot<'_>]) -> Result<(), BenchError> {
        for op in self.distinct(|cell| cell.op.clone()) {
            self.print(&op)?;
        }
        self.write(common, plots)
    }

    pub fn write(&self, common: &Common, plots: &[Plot<'_>]) -> Result<(), BenchError> {
        if let Some(path) = &common.json {
            let text = serde_json::to_string_pretty(&self.json(common))?;
            fs::write(path, text + "\n")
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        if let Some(directory) = &common.plot {
            fs::create_dir_all(directory)?;
            for wanted in plots {
                plot::draw(&directory.join(wanted.file), &wanted.axes, self.lines(wanted.op))?;
            }
        }
        Ok(())
    }

    fn print(&self, op: &str) -> Result<(), BenchError> {
        let cells = || self.cells.iter().filter(|cell| cell.op == op);
        let mut sizes: Vec<u64> = cells().map(|cell| cell.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut lines: Vec<(String, Vec<Option<String>>)> = Vec::new();
        for cell in cells() {
            let at = lines.iter().position(|(name, _)| *name == cell.structure).unwrap_or_else(|| {
                lines.push((cell.structure.clone(), vec![None; sizes.len()]));
                lines.len() - 1
            });
            let column = sizes.partition_point(|&size| size < cell.size);
            lines[at].1[column] = Spread::of(cell.figures.clone()).map(|spread| spread.show());
        }
        let columns: Vec<String> = sizes.into_iter().map(short).collect();
        let unit = cells().map(|cell| cell.unit).next().unwrap_or_default();
        table::print(&format!("{op}, {unit} ({} across)", self.size), &columns, &lines)
    }

    fn json(&self, common: &Common) -> Value {
        let rows: Vec<Value> = self.cells.iter().filter_map(|cell| self.row(cell)).collect();
        json!({
            "benchmark": self.benchmark,
            "quick": common.quick,
            "machine": machine::describe(),
            "rows": rows,
        })
    }

    fn row(&self, cell: &ReportCell) -> Option<Value> {
        let spread = Spread::of(cell.figures.clone())?;
        let mut row = Map::new();
        row.insert("structure".into(), json!(cell.structure));
        row.insert(self.size.replace(' ', "_"), json!(cell.size));
        row.insert("op".into(), json!(cell.op));
        row.insert(cell.unit.replace(' ', "_"), json!(spread.median));
        row.insert("min".into(), json!(spread.min));
        row.insert("max".into(), json!(spread.max));
        row.insert("runs".into(), json!(spread.runs));
        row.extend(cell.extra.clone());
        Some(row.into())
    }

    fn lines(&self, op: &str) -> Vec<Line> {
        let mut points: BTreeMap<&str, Vec<(f64, Option<f64>)>> = BTreeMap::new();
        let mut names = Vec::new();
        for cell in self.cells.iter().filter(|cell| cell.op == op) {
            let Some(spread) = Spread::of(cell.figures.clone()) else { continue };
            if !points.contains_key(&*cell.structure) {
                names.push(&*cell.structure);
            }
            #[expect(clippy::cast_precision_loss, reason = "only for a plot")]
            points.entry(&cell.structure).or_default().push((cell.size as f64, Some(spread.median)));
        }
        names
            .into_iter()
            .map(|name| Line { name: name.to_owned(), points: points.remove(name).unwrap_or_default() })
            .collect()
    }

    fn distinct<V: PartialEq>(&self, of: impl Fn(&ReportCell) -> V) -> Vec<V> {
        let mut all = Vec::new();
        for value in self.cells.iter().map(of) {
            if !all.contains(&value) {
                all.push(value);
            }
        }
        all
    }
}

/// A plot of one operation, with one line per structure.
#[derive(Debug)]
pub struct Plot<'a> {
    pub file: &'a str,
    pub op: &'a str,
    pub axes: Axes,
}
