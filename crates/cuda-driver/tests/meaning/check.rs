//! One run: its inputs, and the comparison of what the device has written with what the analysis
//! says.

use cuda_driver::prelude::*;
use cuda_ptx::analysis::Outcome;
use fastrand::Rng;

use crate::claim::{self, Claim, Claims, Values};
use crate::device::{Device, Parameter};
use crate::inputs::{Inputs, Outputs};
use crate::item::{Item, Plan, Run};
use crate::kernel::{REACHED, UNSET};
use crate::memory::{self, Layout};
use crate::objects::Objects;
use crate::planted::Defect;
use crate::values::{BLOCK, Knowledge, Set, Sets, low_bits};

/// The faults of a run that are reported.
const SHOWN: usize = 3;

/// What a run has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// The operand sets, and those in threads that do not execute the instruction.
    pub(crate) sets: u64,
    pub(crate) inactive: u64,
    /// The numbers that were compared with a claim that says more than the type.
    pub(crate) numbers: u64,
    /// Whether the bytes of accesses were compared.
    pub(crate) accesses: u64,
    pub(crate) faults: Vec<String>,
}

impl Report {
    pub(crate) fn fault(&mut self, text: String) {
        if self.faults.len() < SHOWN {
            self.faults.push(text);
        }
    }
}

/// A run with its inputs.
#[derive(Debug)]
pub(crate) struct Prepared<'i> {
    item: &'i Item,
    sets: Option<Sets>,
    layout: Option<Layout>,
    objects: Option<Objects>,
    inputs: Inputs,
    parameters: Vec<Parameter>,
    defect: Option<Defect>,
    /// A difference between the analysis and the row.
    access_fault: Option<String>,
}

/// Chooses the inputs of a run. Returns the reason for which there is none.
pub(crate) fn prepare<'i>(
    item: &'i Item,
    run: Run,
    count: usize,
    defect: Option<Defect>,
) -> Result<Prepared<'i>, String> {
    let mut rng = Rng::with_seed(run.item as u64 * 4 + run.place.map_or(0, |it| it as u64));
    let mut prepared = Prepared {
        item,
        sets: None,
        layout: None,
        objects: None,
        inputs: Inputs::default(),
        parameters: Vec::new(),
        defect,
        access_fault: None,
    };
    match &item.plan {
        Plan::Skip(reason) => return Err((*reason).to_owned()),
        Plan::Object => {
            let mut sets = Sets::new(item, count.next_multiple_of(64), &mut rng);
            prepared.objects = Some(Objects::new(item, &mut sets, &mut rng)?);
            prepared.inputs = Inputs::of_sets(item, &sets);
        }
        Plan::Values | Plan::Control => {
            let sets = Sets::new(item, count.next_multiple_of(64), &mut rng);
            prepared.inputs = Inputs::of_sets(item, &sets);
            prepared.sets = Some(sets);
        }
        Plan::Memory => {
            let claimed = defect.map_or_else(|| item.clone(), |defect| defect.of_item(item));
            let spans = prepared.spans()?;
            let run = defect.map_or(run, |defect| defect.of_run(run));
            let layout = Layout::new(&claimed, run, &spans, count);
            prepared.inputs = layout.inputs(item, &mut rng);
            prepared.layout = Some(layout);
        }
        Plan::Param => prepared.parameters(count, &mut rng),
    }
    Ok(prepared)
}

impl Prepared<'_> {
    /// Asks the analysis for the accesses of the instruction. Returns the bytes of matrices.
    fn spans(&mut self) -> Result<Vec<usize>, String> {
        let item = self.item;
        let known = vec![Knowledge::Number; item.sources.len()];
        let claims = Claims::new(item, &known, 1)?;
        let mut words = vec![0; crate::kernel::record(&item.sources)];
        if let (Some(last), true) = (words.last_mut(), item.has_stride) {
            *last = memory::stride(item);
        }
        let set = Set {
            case: 0,
            is_active: true,
            words,
        };
        let (accesses, _) = claims.evaluate(Some(&set), &[0; 64])?;
        self.access_fault = claim::access_fault(item, &accesses);
        let mut spans = Vec::new();
        for (access, address) in accesses.iter().zip(&item.addresses) {
            spans.push(match (&access.outcome, address.bytes) {
                (_, Some(bytes)) => bytes as usize,
                (Outcome::Proven { low, high, .. }, None) => (high - low) as usize,
                (other, None) => {
                    return Err(format!("the bytes of the matrix are not known: {other:?}"));
                }
            });
        }
        spans.resize(item.addresses.len(), 0);
        Ok(spans)
    }

    /// Fills the parameter of each launch: as it is, changed around the bytes that are loaded, and
    /// changed in one of them.
    fn parameters(&mut self, count: usize, rng: &mut Rng) {
        let bytes = self.loaded_bytes();
        let variants = bytes + 2;
        while self.parameters.len() < count {
            let mut base: Parameter = [[0; 64]; 3];
            base.iter_mut().for_each(|part| rng.fill(part));
            for variant in 0..variants {
                let mut parameter = base;
                match variant {
                    0 => {}
                    1 => {
                        rng.fill(&mut parameter[0]);
                        rng.fill(&mut parameter[1][bytes..]);
                        rng.fill(&mut parameter[2]);
                    }
                    _ => parameter[1][variant - 2] ^= rng.u8(1..),
                }
                self.parameters.push(parameter);
            }
        }
        self.inputs = Inputs::random(self.item, self.parameters.len(), rng);
        for thread in 0..self.inputs.threads {
            self.inputs.record_mut(thread)[0] = 1;
        }
    }

    /// The bytes that the instruction loads from its parameter.
    fn loaded_bytes(&self) -> usize {
        let results = self.item.results.len();
        let discarded = self.item.text.matches('_').count();
        let head = self.item.text.split(' ').next().unwrap_or("");
        let last = head.rsplit('.').next().unwrap_or("");
        let bits: usize = last[1..].parse().unwrap_or(8);
        let bytes = (results + discarded) * bits / 8;
        match self.defect {
            Some(Defect::Short) => bytes.saturating_sub(1),
            Some(Defect::Long) => bytes + 1,
            _ => bytes,
        }
    }

    /// Runs the kernel, and checks what it has written.
    pub(crate) fn run(
        &self,
        device: &Device,
        module: &Module,
        name: &str,
    ) -> cuda_driver::Result<Report> {
        let item = self.item;
        if let Some(objects) = &self.objects {
            let (outputs, after) = objects.run(device, module, name, item, &self.inputs)?;
            let inactive = (0..self.inputs.threads).filter(|it| !self.inputs.is_active(*it));
            let mut report = Report {
                sets: self.inputs.threads as u64,
                inactive: inactive.count() as u64,
                ..Report::default()
            };
            objects.check(item, &self.inputs, &outputs, &after, &mut report);
            return Ok(report);
        }
        let outputs = device.run(module, name, item, &self.inputs, &self.parameters)?;
        let mut report = Report {
            sets: self.inputs.threads as u64,
            ..Report::default()
        };
        if let Some(fault) = &self.access_fault {
            report.fault(format!("the analysis and the row differ: {fault}"));
        }
        match (&self.sets, &self.layout) {
            (Some(sets), _) => self.check_sets(sets, &outputs, &mut report),
            (_, Some(layout)) => {
                let inactive = (0..self.inputs.threads).filter(|it| !self.inputs.is_active(*it));
                report.inactive = inactive.count() as u64;
                report.accesses = layout.targets.len() as u64;
                for fault in layout.faults(item, &self.inputs, &outputs) {
                    report.fault(fault);
                }
                self.check_loaded(&outputs, &mut report);
            }
            _ => self.check_parameters(&outputs, &mut report),
        }
        Ok(report)
    }

    fn check_sets(&self, sets: &Sets, outputs: &Outputs, report: &mut Report) {
        let item = self.item;
        if item.plan == Plan::Control {
            for (thread, set) in sets.sets.iter().enumerate() {
                let value = outputs.results(thread)[0];
                let expected = if set.is_active { REACHED } else { 0 };
                report.inactive += u64::from(!set.is_active);
                if value != expected {
                    report.fault(format!("thread {thread} stores {value:#x}"));
                }
            }
            return;
        }
        let blocks = (sets.sets.len() / BLOCK) as u32;
        let mut current: Option<(usize, Result<Claims<'_>, String>, Vec<Claim>)> = None;
        for (thread, set) in sets.sets.iter().enumerate() {
            let results = outputs.values(item, thread);
            if !set.is_active {
                report.inactive += 1;
                let expected = self.unset();
                if results != expected {
                    report.fault(format!(
                        "thread {thread} does not execute it, and has the results {results:x?}"
                    ));
                }
                continue;
            }
            let is_new = current.as_ref().is_none_or(|current| current.0 != set.case);
            if is_new {
                let claims = Claims::new(item, &sets.cases[set.case], blocks);
                current = Some((set.case, claims, Vec::new()));
            }
            let Some((_, claims, known)) = &mut current else {
                continue;
            };
            let claims = match claims {
                Ok(claims) => claims,
                Err(error) => {
                    report.fault(format!("not analysed: {error:.300}"));
                    return;
                }
            };
            if is_new || set.case == 0 {
                match claims.evaluate(Some(set), &[0; 64]) {
                    Ok((_, all)) => *known = all,
                    Err(error) => {
                        report.fault(format!("refused: {error:.300}"));
                        return;
                    }
                }
            }
            let sources = source_values(item, &set.words);
            self.compare(claims, known, &sources, &results, thread, report);
        }
    }

    /// The results of a thread that does not execute the instruction.
    fn unset(&self) -> Vec<u64> {
        let results = self.item.results.iter();
        let value = u64::from_ne_bytes([UNSET; 8]);
        results
            .map(|result| match result.bits {
                1 => 1,
                bits => low_bits(value, bits.min(64)),
            })
            .collect()
    }

    /// Compares the numbers of one thread with claims.
    fn compare(
        &self,
        claims: &Claims<'_>,
        known: &[Claim],
        sources: &[u64],
        results: &[u64],
        thread: usize,
        report: &mut Report,
    ) {
        let item = self.item;
        let values = Values { sources, results };
        for (probe, claim) in claims.probes.iter().zip(known) {
            let claim = self.defect.map_or(*claim, |defect| defect.of_claim(*claim));
            report.numbers += u64::from(probe.is_informative(item, claim));
            if !probe.holds(item, claim, values) {
                report.fault(format!(
                    "{probe:?} is not in {claim:?}: thread {thread}, sources {sources:x?}, \
                     results {results:x?}"
                ));
            }
        }
    }

    /// Compares what was loaded with what holds for every load.
    fn check_loaded(&self, outputs: &Outputs, report: &mut Report) {
        let item = self.item;
        let any = ["b8", "b16", "b32", "b64"];
        let known: Vec<Knowledge> = (item.sources.iter())
            .map(|source| match source.bits {
                8 => Knowledge::Load(any[0]),
                16 => Knowledge::Load(any[1]),
                32 => Knowledge::Load(any[2]),
                _ => Knowledge::Load(any[3]),
            })
            .collect();
        let claims = match Claims::new(item, &known, 1) {
            Ok(claims) => claims,
            Err(error) => return report.fault(format!("not analysed: {error:.300}")),
        };
        let evaluated = claims.evaluate(Some(&self.inputs.set(0)), &[0; 64]);
        let Ok((_, all)) = evaluated else {
            return;
        };
        for thread in 0..self.inputs.threads {
            let results = outputs.values(item, thread);
            if !self.inputs.is_active(thread) {
                if results != self.unset() {
                    report.fault(format!("thread {thread} does not execute it: {results:x?}"));
                }
                continue;
            }
            let sources = source_values(item, &self.inputs.set(thread).words);
            self.compare(&claims, &all, &sources, &results, thread, report);
        }
    }

    fn check_parameters(&self, outputs: &Outputs, report: &mut Report) {
        let item = self.item;
        let claims = match Claims::new(item, &[], 1) {
            Ok(claims) => claims,
            Err(error) => return report.fault(format!("not analysed: {error:.300}")),
        };
        let bytes = self.loaded_bytes();
        let variants = bytes + 2;
        report.accesses = 1;
        let mut differs = vec![false; variants];
        for (thread, parameter) in self.parameters.iter().enumerate() {
            let results = outputs.values(item, thread);
            let known = match claims.evaluate(None, &parameter[1]) {
                Ok((_, known)) => known,
                Err(error) => return report.fault(format!("refused: {error:.300}")),
            };
            self.compare(&claims, &known, &[], &results, thread, report);
            let base = thread / variants * variants;
            differs[thread % variants] |= outputs.results(base) != outputs.results(thread);
        }
        for (variant, differs) in differs.iter().enumerate() {
            match variant {
                0 => {}
                1 if *differs => {
                    report.fault(format!("results depend on bytes beyond the {bytes}"));
                }
                2.. if !differs && !item.text.contains('_') => {
                    let byte = variant - 2;
                    report.fault(format!("results never depend on byte {byte} of {bytes}"));
                }
                _ => {}
            }
        }
    }
}

/// One number for each source, without the high half of those with 128 bits.
fn source_values(item: &Item, words: &[u64]) -> Vec<u64> {
    let mut slot = 0;
    let values = item.sources.iter().map(|source| {
        let value = words[slot];
        slot += source.slots();
        low_bits(value, source.bits.min(64))
    });
    values.collect()
}
