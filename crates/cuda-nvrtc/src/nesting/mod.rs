//! An upper bound of the stack that NVRTC needs to parse a text.
//!
//! NVRTC's parser has no nesting limit: it recurses until its stack overflows, which ends the
//! process. This module adds up the cost of the constructs that are open at one point of a text.
//! The costs were measured on NVRTC 12.0 and 13.5 by the stack pages that a compilation touched;
//! the costs used here are at least 1.4 times as high:
//!
//! | construct, per level | measured | counted |
//! |---|---|---|
//! | `(`, `f(`, `sizeof(`, `x+(` | 3.4, 6.6, 7.0, 6.7 KiB | 8, 10, 16, 14 KiB |
//! | `[&]{`, `[](){ return` | 8.2, 8.5 KiB | 12, 20 KiB |
//! | `!`, `sizeof`, `(int)`, `*&` | 2.8, 3.5, 3.5, 6.0 KiB | 8, 8, 6, 16 KiB |
//! | `x =`, `x ? x :` | 3.2, 3.7 KiB | 10, 20 KiB |
//! | `A<` | 2.0, in an expression 4.1 KiB | 10 KiB |
//! | `if (x)`, `else if (x)`, `while (x)` | 1.6 KiB | 10, 14, 10 KiB |
//! | `extern "C"`, `namespace a {` | 1.9, 1.7 KiB | 8, 12 KiB |
//! | `.f()`, `()`, `<< x` with overloads | 1.9, 1.9, 1.6 KiB | 12, 6, 6 KiB |
//! | `+ x`, `&& x`, `== x` | 0.2, 0.5, 0.8 KiB | 6, 6, 6 KiB |
//!
//! A token that is not listed counts 2 KiB, so unforeseen constructs are bounded as well. Lists
//! (`a, b`), consecutive statements, `#if` and string literals need no stack.
//!
//! The bound does not cover expanded macros, headers on disk, and chains of declarations such as
//! 100,000 typedefs, each of the previous one. No stack is large enough for macros: each `#define`
//! can repeat the previous one, so the depth grows exponentially with the length of the text.
//! Headers on disk would have to be found as the preprocessor finds them, and macros can compute
//! their names.

mod lexer;

use self::lexer::{Bracket, Token};
use crate::Error;

const KINDS: usize = 5;

/// A kind of nesting, as an index of [`UNITS`] and [`NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Brackets,
    Operators,
    Templates,
    Statements,
    /// Consecutive names, binary operators and calls.
    Links,
}

/// The stack bytes assumed for one level of each kind.
const UNITS: [usize; KINDS] = [8 << 10, 8 << 10, 8 << 10, 4 << 10, 2 << 10];

const NAMES: [&str; KINDS] = [
    "brackets",
    "prefix operators, assignments or conditional operators",
    "template argument lists",
    "statements such as `if`, `else` and `while`",
    "names, binary operators and calls in a row",
];

/// The highest cost in bytes of one character.
const DEAREST: usize = 8 << 10;

/// The scan stops once the text would need this multiple of the stack. This bounds the memory of
/// the scan.
const ENOUGH: usize = 64;

/// Fails if the text might not be parsed on a stack of `stack` bytes.
pub(crate) fn check(place: &str, text: &[u8], stack: usize) -> Result<(), Error> {
    if text.len().saturating_mul(DEAREST) <= stack {
        return Ok(());
    }
    let deepest = deepest(text, stack.saturating_mul(ENOUGH));
    if deepest.cost() <= stack {
        return Ok(());
    }
    let needed = deepest.cost();
    // `Kind::Links` occurs together with each of the other kinds, which describe the problem
    // better.
    let weight = |&kind: &usize| match deepest.0[kind] * UNITS[kind] {
        share if kind == Kind::Links as usize => share / 8,
        share => share,
    };
    let kind = (0..KINDS).max_by_key(weight).unwrap_or(0);
    let depth = deepest.0[kind];
    // The limit for the same mix of constructs on the given stack. Both products fit in 128 bits.
    let limit = depth as u128 * stack as u128 / needed.max(1) as u128;
    Err(Error::TooDeep {
        place: place.to_owned(),
        kind: NAMES[kind],
        depth,
        limit: usize::try_from(limit).unwrap_or(depth),
        stack,
        needed,
    })
}

/// The number of open constructs of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Open([usize; KINDS]);

impl Open {
    fn cost(&self) -> usize {
        self.0
            .iter()
            .zip(UNITS)
            .map(|(count, unit)| count * unit)
            .sum()
    }
}

/// The construct that opened a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opener {
    /// The text itself, or a preprocessor directive.
    Text,
    Bracket(Bracket),
    /// `<`, which may be a comparison; closed by `>` or by the end of the statement.
    Angle,
    /// `?`, closed by `:`.
    Question,
}

/// The open constructs of a frame, apart from brackets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    operators: usize,
    links: usize,
    statements: usize,
    /// The number of `do`s among the statements.
    dos: usize,
}

impl Run {
    fn add(&mut self, other: Self) {
        self.operators += other.operators;
        self.links += other.links;
        self.statements += other.statements;
        self.dos += other.dos;
    }
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    opener: Opener,
    run: Run,
    /// The innermost frame of a bracket or text, from this one on outwards.
    hard: usize,
    /// The innermost frame of a `{`, from this one on outwards; 0 if there is none.
    curly: usize,
}

/// A statement or declaration that may have ended, depending on the next token.
#[derive(Clone, Copy, Debug)]
struct Ended {
    run: Run,
    by_brace: bool,
}

/// The kind of the preceding token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Literal,
    Operand,
    CloseRound,
    Other,
}

/// The state outside of a preprocessor directive, which the directive does not change.
struct Outside {
    frames: usize,
    ended: Option<Ended>,
    before: Before,
}

struct Walk {
    frames: Vec<Frame>,
    open: Open,
    deepest: Open,
    ended: Option<Ended>,
    before: Before,
    /// The state outside of the current directive, if one is being read.
    directive: Option<Outside>,
    line_start: bool,
}

/// Returns the open constructs at the point that needs the most stack. Stops once that is more than
/// `enough` bytes.
fn deepest(text: &[u8], enough: usize) -> Open {
    let text = lexer::joined(text);
    let mut walk = Walk {
        frames: vec![Frame {
            opener: Opener::Text,
            run: Run::default(),
            hard: 0,
            curly: 0,
        }],
        open: Open::default(),
        deepest: Open::default(),
        ended: None,
        before: Before::Other,
        directive: None,
        line_start: true,
    };
    let mut rest = &*text;
    while !rest.is_empty() && walk.deepest.cost() <= enough {
        let (token, length) = lexer::token(rest);
        walk.take(token);
        rest = rest.get(length..).unwrap_or_default();
    }
    walk.deepest
}

impl Walk {
    fn take(&mut self, token: Token<'_>) {
        match token {
            Token::Space => return,
            Token::NewLine => {
                if let Some(outside) = self.directive.take() {
                    while self.frames.len() > outside.frames {
                        self.pop();
                    }
                    (self.ended, self.before) = (outside.ended, outside.before);
                }
                self.line_start = true;
                return;
            }
            Token::Hash if self.line_start => {
                self.directive = Some(Outside {
                    frames: self.frames.len(),
                    ended: self.ended.take(),
                    before: self.before,
                });
                self.push(Opener::Text);
            }
            _ => {
                self.go_on(token);
                self.apply(token);
            }
        }
        self.line_start = false;
        if self.open.cost() > self.deepest.cost() {
            self.deepest = self.open;
        }
    }

    /// Reopens the ended statement if `token` continues it.
    fn go_on(&mut self, token: Token<'_>) {
        let Some(Ended { mut run, by_brace }) = self.ended.take() else {
            return;
        };
        let continues = match token {
            Token::Word(b"else") => true,
            Token::Word(b"while") if run.dos > 0 => {
                run.dos -= 1;
                true
            }
            Token::Word(_) | Token::Literal | Token::Close(_) | Token::Semicolon => false,
            Token::Open(Bracket::Curly) | Token::Prefix | Token::Scope | Token::Hash => false,
            _ => by_brace,
        };
        if continues {
            self.grow(run);
        }
    }

    fn apply(&mut self, token: Token<'_>) {
        let before = std::mem::replace(&mut self.before, Before::Other);
        let operators = |operators| Run {
            operators,
            ..Run::default()
        };
        let links = |links| Run {
            links,
            ..Run::default()
        };
        match token {
            Token::Open(bracket) => self.push(Opener::Bracket(bracket)),
            Token::Close(bracket) => self.close(bracket),
            Token::Semicolon => self.end(false),
            Token::Comma => {
                let run = self.run();
                let (operators, links) = (run.operators, run.links);
                (run.operators, run.links) = (0, 0);
                self.open.0[Kind::Operators as usize] -= operators;
                self.open.0[Kind::Links as usize] -= links;
            }
            Token::Question => self.push(Opener::Question),
            Token::Colon if self.top() == Opener::Question => {
                self.merge();
                self.grow(operators(2));
            }
            // After a literal, `<` can only be a comparison.
            Token::Less if before != Before::Literal => self.push(Opener::Angle),
            Token::Greater(count) if self.top() == Opener::Angle => {
                for _ in 0..count {
                    if self.top() == Opener::Angle {
                        self.merge();
                    }
                }
                self.grow(links(2));
                self.before = Before::Operand;
            }
            // `(int) - x` may be a cast.
            Token::Sign if matches!(before, Before::Literal | Before::Operand) => {
                self.grow(links(2));
            }
            Token::Prefix | Token::Sign | Token::Assign => self.grow(operators(1)),
            Token::Binary | Token::Less | Token::Greater(_) => self.grow(links(2)),
            Token::Colon | Token::Scope | Token::Hash | Token::Other => self.grow(links(1)),
            Token::Literal => self.before = Before::Literal,
            Token::Word(word) => self.word(word),
            Token::Space | Token::NewLine => {}
        }
    }

    fn word(&mut self, word: &[u8]) {
        let mut run = Run::default();
        match word {
            b"if" | b"else" | b"for" | b"while" | b"do" | b"switch" | b"case" | b"default"
            | b"try" | b"catch" => {
                run.statements = 1;
                run.dos = usize::from(word == b"do");
            }
            b"return" | b"goto" => run.links = 1,
            _ => {
                run.links = 1;
                self.before = Before::Operand;
            }
        }
        self.grow(run);
    }

    /// Closes the innermost bracket of this kind. `)` and `]` close nothing beyond another bracket,
    /// because the parser continues within that bracket; `}` does.
    fn close(&mut self, bracket: Bracket) {
        let frame = self.frames[self.frames.len() - 1];
        let at = match bracket {
            Bracket::Curly => frame.curly,
            Bracket::Round | Bracket::Square => frame.hard,
        };
        if self.frames[at].opener == Opener::Bracket(bracket) {
            while self.frames.len() > at {
                self.pop();
            }
        }
        self.grow(Run {
            links: if bracket == Bracket::Round { 3 } else { 2 },
            ..Run::default()
        });
        self.before = match bracket {
            Bracket::Round => Before::CloseRound,
            Bracket::Square => Before::Operand,
            Bracket::Curly => Before::Other,
        };
        if bracket == Bracket::Curly {
            self.end(true);
        }
    }

    /// Ends a statement, unless the next token continues it.
    fn end(&mut self, by_brace: bool) {
        while matches!(self.top(), Opener::Angle | Opener::Question) {
            self.merge();
        }
        let mut run = std::mem::take(self.run());
        self.open.0[Kind::Operators as usize] -= run.operators;
        self.open.0[Kind::Links as usize] -= run.links;
        self.open.0[Kind::Statements as usize] -= run.statements;
        if !by_brace {
            (run.operators, run.links) = (0, 0);
        }
        self.ended = Some(Ended { run, by_brace });
    }

    fn top(&self) -> Opener {
        self.frames
            .last()
            .map_or(Opener::Text, |frame| frame.opener)
    }

    fn run(&mut self) -> &mut Run {
        // The first frame is never removed: the frame of a directive is above it.
        let last = self.frames.len() - 1;
        &mut self.frames[last].run
    }

    fn grow(&mut self, run: Run) {
        self.run().add(run);
        self.open.0[Kind::Operators as usize] += run.operators;
        self.open.0[Kind::Links as usize] += run.links;
        self.open.0[Kind::Statements as usize] += run.statements;
    }

    fn push(&mut self, opener: Opener) {
        if let Some(kind) = kind_of(opener) {
            self.open.0[kind as usize] += 1;
        }
        let at = self.frames.len();
        let (hard, curly) = match opener {
            Opener::Text => (at, 0),
            Opener::Bracket(Bracket::Curly) => (at, at),
            Opener::Bracket(_) => (at, self.frames[at - 1].curly),
            Opener::Angle | Opener::Question => {
                let around = self.frames[at - 1];
                (around.hard, around.curly)
            }
        };
        self.frames.push(Frame {
            opener,
            run: Run::default(),
            hard,
            curly,
        });
    }

    fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop()?;
        if let Some(kind) = kind_of(frame.opener) {
            self.open.0[kind as usize] -= 1;
        }
        self.open.0[Kind::Operators as usize] -= frame.run.operators;
        self.open.0[Kind::Links as usize] -= frame.run.links;
        self.open.0[Kind::Statements as usize] -= frame.run.statements;
        Some(frame)
    }

    /// Closes the innermost frame and moves its open constructs to the enclosing frame.
    fn merge(&mut self) {
        if let Some(frame) = self.pop() {
            self.grow(frame.run);
        }
    }
}

/// Returns the kind of nesting that a frame counts as.
fn kind_of(opener: Opener) -> Option<Kind> {
    match opener {
        Opener::Text => None,
        Opener::Bracket(_) => Some(Kind::Brackets),
        Opener::Angle => Some(Kind::Templates),
        Opener::Question => Some(Kind::Operators),
    }
}

#[cfg(test)]
mod tests;
