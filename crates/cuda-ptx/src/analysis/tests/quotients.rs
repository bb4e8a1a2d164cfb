//! Quotients against the division of numbers.

use std::cell::Cell;

use super::super::bound::{DEPTH_OF_ACCESS, Prover};
use super::super::form::Form;
use super::super::symbols::{Kind, Symbols};

#[test]
fn quotients_have_the_range_of_floor() {
    for divisor in 1..20 {
        for (low, high) in [(-30, 17), (0, 40), (5, 6), (-7, -1)] {
            let mut symbols = Symbols::default();
            let x = symbols.simple(Kind::Opaque(1, low, high), Some(low), Some(high), None);
            let form = Form::symbol(x.unwrap()).scale(3).unwrap().plus(1).unwrap();
            let quotient = symbols.quotient(&form, divisor).unwrap();
            let floor = |x: i128| (3 * x + 1).div_euclid(divisor);
            assert_eq!(symbols.low(&quotient), Some(floor(low)));
            assert_eq!(symbols.high(&quotient), Some(floor(high)));
            // The remainder is known by the facts of the quotient.
            let rest = form.combine(1, &quotient, -divisor).unwrap();
            let work = Cell::new(u64::MAX);
            let prover = Prover {
                symbols: &symbols,
                facts: &[],
                depth: DEPTH_OF_ACCESS,
                work: &work,
            };
            assert!(prover.is_at_least(&rest, 0) && prover.is_at_most(&rest, divisor - 1));
        }
    }
}

#[test]
fn a_bit_field_has_one_form() {
    let mut symbols = Symbols::default();
    let high = (1 << 64) - 1;
    let x = symbols.simple(Kind::Opaque(1, 0, high), Some(0), Some(high), None);
    let x = Form::symbol(x.unwrap());
    let mut shifted = |form: &Form, by: u32| symbols.quotient(form, 1 << by).unwrap();
    let (half, once) = (shifted(&x, 32), shifted(&x, 52));
    assert_eq!(shifted(&half, 20), once);
    let sign = shifted(&once, 11);
    assert_eq!(shifted(&x, 63), sign);
    // A multiple of the divisor is no part of the dividend.
    let exponent = once.combine(1, &sign, -2048).unwrap();
    let q = shifted(&exponent.plus(-1024).unwrap(), 6);
    let expected = shifted(&x.plus(-(1 << 62)).unwrap(), 58);
    assert_eq!(q, expected.combine(1, &sign, -32).unwrap());
}
