//! Loops: which values grow by a number in each iteration, and what holds at loop headers.
//!
//! An assumption is a form F for which F ≤ 0 is assumed at a header in every iteration. All are
//! assumed together, and each must then hold when its loop is entered, and again after each
//! iteration. Those that do not hold are dropped until all that remain do: then they hold by
//! induction over the steps of a thread.

use std::collections::BTreeMap;

use crate::flow::Kernel;

use super::form::{Form, Symbol, floor_div};
use super::known::{Assumptions, Known};
use super::round::Round;
use super::symbols::Kind;

/// The largest number of new assumptions at one header.
const MAX_ASSUMPTIONS: usize = 12;

/// The headers of the loops of a kernel.
pub(super) fn headers(kernel: &Kernel) -> Vec<u32> {
    let graph = &kernel.graph;
    let is_header = |&block: &u32| {
        let preds = &graph.preds[block as usize];
        preds.iter().any(|&pred| graph.is_back_edge(pred, block))
    };
    graph.order.iter().copied().filter(is_header).collect()
}

/// Finds the phis that each iteration changes by the same number. In `round`, the phis of headers
/// are unknown numbers.
pub(super) fn steps(round: &mut Round<'_>, headers: &[u32]) -> BTreeMap<u32, i128> {
    let mut steps = BTreeMap::new();
    let kernel = round.kernel;
    let graph = &kernel.graph;
    for &header in headers {
        for phi in &kernel.blocks[header as usize].phis {
            let bits = kernel.values[phi.target as usize].0;
            let Some(Known::Number(start)) = round.known[phi.target as usize].clone() else {
                continue;
            };
            let mut step = None;
            let preds = graph.preds[header as usize].iter().zip(&phi.args);
            let back = preds.filter(|(pred, _)| graph.is_back_edge(**pred, header));
            let all = back.into_iter().all(|(pred, arg)| {
                let Some(Known::Number(end)) = round.read(*arg, &[*pred, header]) else {
                    return false;
                };
                let difference = end.sub(&start).map(|form| form.reduced(bits));
                let value = difference.and_then(|form| round.symbols.value(&form));
                let value = value.map(|value| Form::number(value).reduced(bits).constant);
                let is_same = value.is_some() && step.is_none_or(|step| Some(step) == value);
                step = value;
                is_same
            });
            if let (true, Some(step)) = (all, step) {
                steps.insert(phi.target, step);
            }
        }
    }
    steps
}

fn counter(round: &mut Round<'_>, header: u32) -> Option<Symbol> {
    let kind = Kind::Loop(header);
    round.symbols.simple(kind, Some(0), None, Some(header))
}

/// The phis of a header that are unknown numbers: the symbol, the phi's value in each predecessor,
/// and the width.
fn unknown_phis<'k>(round: &Round<'k>, header: u32) -> Vec<(Symbol, &'k [u32], u32)> {
    let kernel = round.kernel;
    let phis = kernel.blocks[header as usize].phis.iter();
    let unknown = phis.filter_map(|phi| {
        let Some(Known::Number(form)) = &round.known[phi.target as usize] else {
            return None;
        };
        let [(symbol, 1)] = form.terms() else {
            return None;
        };
        let is_own = matches!(round.symbols.info(*symbol).kind, Kind::Opaque(value, 0, _) if value == phi.target);
        let bits = kernel.values[phi.target as usize].0;
        (is_own && form.constant == 0).then_some((*symbol, phi.args.as_slice(), bits))
    });
    unknown.collect()
}

/// Returns the known values of the symbols of a header after one more step along the edge from
/// `pred`.
fn next(
    round: &mut Round<'_>,
    header: u32,
    k: Symbol,
    index: usize,
    pred: u32,
) -> Vec<(Symbol, Option<Form>)> {
    let mut next = vec![match round.kernel.graph.is_back_edge(pred, header) {
        true => (k, Form::symbol(k).plus(1)),
        false => (k, Some(Form::number(0))),
    }];
    let facts = round.facts[pred as usize].clone();
    for (symbol, args, bits) in unknown_phis(round, header) {
        let arg = args.get(index);
        let form = match arg.and_then(|arg| round.read(*arg, &[pred, header])) {
            Some(Known::Number(form)) => round.exact(&form, bits, false, &facts),
            _ => None,
        };
        next.push((symbol, form));
    }
    next
}

/// `form` with all symbols replaced at once.
fn replaced(form: &Form, by: &[(Symbol, Option<Form>)]) -> Option<Form> {
    let find = |symbol| by.iter().find(|(other, _)| *other == symbol);
    let mut result = form.only(|symbol, _| find(symbol).is_none());
    result.constant = form.constant;
    for &(symbol, times) in form.terms() {
        if let Some((_, value)) = find(symbol) {
            result = result.combine(1, value.as_ref()?, times)?;
        }
    }
    Some(result)
}

/// The assumptions that an unknown number never becomes smaller than its first value, or never
/// greater.
fn monotone(round: &mut Round<'_>, header: u32, k: Symbol) -> Vec<Form> {
    let kernel = round.kernel;
    let preds = &kernel.graph.preds[header as usize];
    let entries = preds.iter().enumerate();
    let mut entries = entries.filter(|(_, pred)| {
        round.is_live[**pred as usize] && !kernel.graph.is_back_edge(**pred, header)
    });
    let (Some((index, &pred)), None) = (entries.next(), entries.next()) else {
        return Vec::new();
    };
    let mut forms = Vec::new();
    for (symbol, start) in next(round, header, k, index, pred) {
        let Some(start) = start.filter(|_| symbol != k) else {
            continue;
        };
        let difference = Form::symbol(symbol).sub(&start);
        forms.extend(difference.iter().filter_map(|form| form.scale(-1)));
        forms.extend(difference);
    }
    forms
}

/// Derives assumptions from the conditions of a back edge: each next value x + c, before it wraps,
/// takes the place of the next value in a condition. Counters that a mask truncates need them. The
/// caller drops those that are false.
fn before_step(
    round: &Round<'_>,
    conditions: &[Form],
    next: &[(Symbol, Option<Form>)],
) -> Vec<Form> {
    let pairs = conditions
        .iter()
        .flat_map(|form| next.iter().map(move |(symbol, next)| (form, *symbol, next)));
    let forms = pairs.filter_map(|(form, symbol, next)| {
        let next = round.symbols.without_wraps(next.as_ref()?);
        let by = form.coefficient(symbol);
        let is_step = by != 0 && next.coefficient(symbol) == 1;
        let rest = form.combine(1, &next, -by).filter(|_| is_step)?;
        rest.combine(1, &Form::symbol(symbol), by)
    });
    forms.collect()
}

/// Returns assumptions about unknown numbers, and from the conditions that hold on back edges.
pub(super) fn new_assumptions(round: &mut Round<'_>, headers: &[u32]) -> BTreeMap<u32, Vec<Form>> {
    let mut assumptions = BTreeMap::new();
    for &header in headers {
        if !round.is_live[header as usize] {
            continue;
        }
        let Some(k) = counter(round, header) else {
            continue;
        };
        let (of_counter, of_unknown) = candidates(round, header, k);
        let mut accepted: Vec<Form> = Vec::new();
        let own: Vec<Symbol> = unknown_phis(round, header)
            .iter()
            .map(|phi| phi.0)
            .collect();
        for form in monotone(round, header, k).into_iter().chain(of_unknown) {
            if is_valid(round, &form, &own, header) && !accepted.contains(&form) {
                accepted.push(form);
            }
        }
        for form in of_counter {
            let form = round.symbols.tightened(form);
            let end = last_iteration(round, &form, k);
            for form in [Some(form), end].into_iter().flatten() {
                if is_valid(round, &form, &[k], header) && !accepted.contains(&form) {
                    accepted.push(form);
                }
            }
        }
        accepted.truncate(MAX_ASSUMPTIONS);
        assumptions.insert(header, accepted);
    }
    assumptions
}

/// Returns possible assumptions about the number k of the iteration and, separately, about unknown
/// numbers, from the conditions under which the back edges are taken.
fn candidates(round: &mut Round<'_>, header: u32, k: Symbol) -> (Vec<Form>, Vec<Form>) {
    let kernel = round.kernel;
    let (mut forms, mut of_unknown) = (Vec::new(), Vec::new());
    for (index, &pred) in kernel.graph.preds[header as usize].iter().enumerate() {
        if !kernel.graph.is_back_edge(pred, header) || !round.is_live[pred as usize] {
            continue;
        }
        let first = forms.len();
        let mut block = pred;
        while block != header {
            if let Some(condition) = round.conditions[block as usize].clone() {
                let facts = round.facts[block as usize].clone();
                condition.facts(true, &round.prover(&facts), true, &mut forms);
            }
            let parent = kernel.graph.parent[block as usize];
            if parent == block {
                break;
            }
            block = parent;
        }
        let next = next(round, header, k, index, pred);
        of_unknown.extend(before_step(round, &forms[first..], &next));
    }
    // What held in iteration k - 1 may hold at the header in iteration k.
    let previous = Form::symbol(k).plus(-1);
    let with_k = forms.iter().filter(|form| form.coefficient(k) != 0);
    let shifted = with_k.filter_map(|form| form.substitute(k, previous.as_ref()?));
    // The loop may end in the first iteration.
    let of_counter = [Form::symbol(k)].into_iter().chain(shifted).collect();
    (of_counter, of_unknown)
}

/// From `form ≤ 0`, the assumption `k ≤ n` for a number n.
fn last_iteration(round: &Round<'_>, form: &Form, k: Symbol) -> Option<Form> {
    let by = form.coefficient(k);
    if by <= 0 {
        return None;
    }
    let rest = round.symbols.low(&form.without(k))?;
    let end = floor_div(rest.checked_neg()?, by).max(0);
    Form::symbol(k).plus(-end)
}

/// Whether an assumption means the same in every round and, except for `own` symbols, in every
/// iteration.
fn is_valid(round: &Round<'_>, form: &Form, own: &[Symbol], header: u32) -> bool {
    let is_below = |block| round.kernel.graph.dominates(header, block);
    let others = form.only(|symbol, _| !own.contains(&symbol));
    round.symbols.is_stable(form) && round.symbols.is_fixed(&others, is_below)
}

/// Drops the assumptions at headers that `round`, which made them all, does not prove. Returns
/// `None` if it proved all.
pub(super) fn verify(round: &mut Round<'_>, assumptions: &Assumptions) -> Option<Assumptions> {
    let mut kept = assumptions.clone();
    let mut is_complete = true;
    for (&header, forms) in &assumptions.at_headers {
        if !round.is_live[header as usize] {
            continue;
        }
        let mut proven = forms.clone();
        let kernel = round.kernel;
        for (index, &pred) in kernel.graph.preds[header as usize].iter().enumerate() {
            if !round.is_live[pred as usize] || proven.is_empty() {
                continue;
            }
            let Some(k) = counter(round, header) else {
                proven.clear();
                break;
            };
            let next = next(round, header, k, index, pred);
            let prover = round.prover(&round.facts[pred as usize]);
            proven.retain(|form| {
                replaced(form, &next).is_some_and(|form| prover.is_at_most(&form, 0))
            });
        }
        is_complete &= proven.len() == forms.len();
        kept.at_headers.insert(header, proven);
    }
    (!is_complete).then_some(kept)
}
