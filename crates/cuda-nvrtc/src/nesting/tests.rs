use super::{Kind, NAMES, UNITS, check, deepest};
use crate::Error;

/// Returns the levels of `kind` at the point where `text` needs the most stack.
fn levels(text: &str, kind: Kind) -> usize {
    deepest(text.as_bytes(), usize::MAX).0[kind as usize]
}

fn brackets(text: &str) -> usize {
    levels(text, Kind::Brackets)
}

fn cost(text: &str) -> usize {
    deepest(text.as_bytes(), usize::MAX).cost()
}

#[test]
fn brackets_nest() {
    assert_eq!(brackets(""), 0);
    assert_eq!(brackets("f(a[b(c)], {d})"), 3);
    assert_eq!(brackets(")))((x"), 2);
    assert_eq!(brackets("{ ( } (("), 2);
    assert_eq!(brackets("( ] ( ] ( ]"), 3);
}

#[test]
fn alternative_brackets_nest() {
    assert_eq!(brackets("f<:g<:0:>:>; <% <% <%"), 3);
    assert_eq!(brackets("<%%><%%>"), 1);
    assert_eq!(brackets("A<::b> B<::c>\n%:define X"), 0);
    assert_eq!(brackets("<\\\n%<\\\r\n:"), 2);
}

#[test]
fn comments_and_literals_do_not_nest() {
    assert_eq!(brackets("( /*)*/ ( //)\n ( // \\\n)\n ("), 4);
    assert_eq!(brackets("/* ((( */ // (((\n x"), 0);
    let text = "f(\"/*\", \"http://x\", \"\\\"((\", '\"', '\\'', '(') ((";
    assert_eq!(brackets(text), 2);
    assert_eq!(brackets("1'000'(("), 2);
    assert_eq!(brackets("R\"x(\" )\" (( )x\" (( u8R\"((()\" \"(\n ("), 3);
    assert_eq!(brackets("AR\"(\" (("), 2);
    for text in ["(( /* )(", "(( R\"x( )\" (", "(( \"(", "(( //("] {
        assert_eq!(brackets(text), 2, "{text:?}");
    }
    for text in ["'", "'\\", "\"\\", "R\"", "/", "<", "<:", "\\", "1e", "."] {
        assert!(brackets(text) <= 1, "{text:?}");
    }
}

#[test]
fn every_kind_of_right_recursion_adds_up() {
    for (piece, kind) in [
        ("(", Kind::Brackets),
        ("[&]{", Kind::Brackets),
        ("- ", Kind::Operators),
        ("sizeof ", Kind::Operators),
        ("delete ", Kind::Operators),
        ("not ", Kind::Operators),
        ("x = ", Kind::Operators),
        ("x += ", Kind::Operators),
        ("x = int{} = ", Kind::Operators),
        ("x ? ", Kind::Operators),
        ("x ? y : ", Kind::Operators),
        ("x ? y, z : ", Kind::Operators),
        ("x ? y, ", Kind::Operators),
        ("extern \"C\" ", Kind::Operators),
        ("(int) - ", Kind::Operators),
        ("(int)", Kind::Links),
        ("(x) + ", Kind::Operators),
        ("x + ", Kind::Links),
        ("f()", Kind::Links),
        (".f()", Kind::Links),
        ("x << ", Kind::Links),
        ("A<", Kind::Templates),
        ("A<B, ", Kind::Templates),
        ("A<B<C>, ", Kind::Templates),
        ("- A<B, ", Kind::Templates),
        ("A::template B<", Kind::Templates),
        ("if (x) ", Kind::Statements),
        ("if (x); else ", Kind::Statements),
        ("if (x) {} else ", Kind::Statements),
        ("if (x)\n#pragma y\n", Kind::Statements),
        ("if (x);\n#if 1\nelse\n#endif\n", Kind::Statements),
        ("while (x) ", Kind::Statements),
        ("for (;;) ", Kind::Statements),
        ("do ", Kind::Statements),
        ("if (x) y, z; else ", Kind::Statements),
    ] {
        let nested = levels(&piece.repeat(1000), kind);
        assert!(nested >= 900, "{piece:?}: {nested}");
        let message = check("a", piece.repeat(40_000).as_bytes(), 64 << 20).unwrap_err();
        assert!(
            message.to_string().contains(NAMES[kind as usize]),
            "{piece:?}: {message}"
        );
    }
}

#[test]
fn consecutive_pieces_do_not_nest() {
    for piece in [
        "x = y;",
        "x, ",
        "a = 1, ",
        "if (x) { y; } ",
        "if (x) y; else z; ",
        "do { x; } while (y); ",
        "do x; while (y); ",
        "while (x) { y; } ",
        "void f(int) {} ",
        "struct A {}; ",
        "namespace a {} ",
        "template <class T> struct A<T> {}; ",
        "{1, 2}, ",
        "{x < y, z} ",
        "{ *p = 1; } *p = 2; ",
        "(x ? y : z), ",
        "x = y ? a < b : c; ",
        "case 1: x; ",
        "\"text\" ",
        "#define A (\n",
        "#if A < B\n#endif\n",
        "[[a]] int x; ",
        "[]{ return 1; }(); ",
    ] {
        let few = cost(&piece.repeat(10));
        assert_eq!(cost(&piece.repeat(1000)), few, "{piece:?}");
    }
}

#[test]
fn the_search_takes_linear_time() {
    let many = 1 << 18;
    let texts = [
        "/*", "//", "\"", "R\"(", "'", "<:", "\\\n", "R\"abc", "A<", "x?", "(", "{", "\n#",
        "}else ",
    ];
    let texts = texts.map(|text| text.repeat(many));
    let pairs = [
        ("A<", ")"),
        ("(", "}"),
        ("{(", "]"),
        ("A<", ":"),
        ("x?", ">"),
    ];
    let pairs = pairs.map(|(open, close)| open.repeat(many) + &close.repeat(many));
    for text in texts.iter().chain(&pairs) {
        let start = std::time::Instant::now();
        deepest(text.as_bytes(), usize::MAX);
        let took = start.elapsed();
        assert!(took.as_secs() < 10, "{}: {took:?}", &text[..8]);
    }
}

#[test]
fn the_limit_follows_the_stack() {
    let text = vec![b'('; 5000];
    assert!(check("a", &text, 256 << 20).is_ok());
    let error = check("a", &text, 8 << 20).unwrap_err();
    let text = error.to_string();
    let Error::TooDeep {
        kind,
        depth,
        limit,
        needed,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((kind, depth, limit), ("brackets", 5000, 1024));
    assert_eq!(needed, 5000 * UNITS[Kind::Brackets as usize]);
    for part in [
        "5000 brackets",
        "8388608 bytes",
        "1024",
        "Options::stack_size",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(check("a", &[b'('; 5000], needed).is_ok());
}

#[test]
fn looking_stops_far_above_the_limit() {
    let error = check("a", &vec![b'('; 1 << 20], 1 << 20).unwrap_err();
    let Error::TooDeep { depth, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(depth, 64 * 128 + 1);
}
