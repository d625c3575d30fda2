//! Layouts, as the text that `spyre compile --layouts` shows.

use spyre_compiler::{Kernel, OperandId, Restickified, Stick};
use spyre_numerics::Profile;

/// The layouts of a kernel, with sticks that are given by the names of tensors and dims.
fn shown(text: &str, profile: Profile, given: &[(&str, &str)]) -> String {
    let kernel: Kernel = text.parse().unwrap_or_else(|error| panic!("{error}: {text}"));
    let operand = |name: &str| kernel.operands().iter().position(|known| known.name == name);
    let dim = |name: &str| kernel.dims().iter().position(|known| known == name);
    let given: Vec<_> = given
        .iter()
        .map(|(name, stick)| {
            let operand = OperandId(operand(name).expect("a tensor") as u32);
            let along = |at| Stick::Along(spyre_compiler::DimId(at as u8));
            (operand, dim(stick).map_or(Stick::Sparse, along))
        })
        .collect();
    kernel.layouts(profile, &given).show(&kernel).to_string()
}

const ADD: &str = "kernel sums(m, n) {
    in a: float16[m, n]
    in b: float16[m, n]
    out c: float16[m, n]
    c = a + b
}";

const MATMUL: &str = "kernel matmul(m, k, n) {
    in a: float16[m, k]
    in b: float16[k, n]
    out c: float16[m, n]
    c = sum<k>(a * b)
}";

#[test]
fn what_lies_alike_is_not_turned() {
    assert_eq!(
        shown(ADD, Profile::Card, &[]),
        "  a  in     m x n  sticks along n
  b  in     m x n  sticks along n
  c  out    m x n  sticks along n
"
    );
    let along_m = shown(ADD, Profile::Card, &[("a", "m"), ("b", "m")]);
    assert!(along_m.contains("c  out    m x n  sticks along m"), "{along_m}");
    assert!(!along_m.contains("restickify"), "{along_m}");
}

#[test]
fn operands_of_a_pointwise_operation_share_their_sticks() {
    assert_eq!(
        shown(ADD, Profile::Card, &[("b", "m")]),
        "  a  in     m x n  sticks along n
  b  in     m x n  sticks along m
  c  out    m x n  sticks along n
restickify
  b  from m to n
"
    );
    let open = shown(ADD, Profile::Open, &[("b", "m")]);
    assert!(!open.contains("restickify"), "the software card takes any layout: {open}");
}

#[test]
fn an_output_whose_layout_is_given_is_turned_into_it() {
    assert_eq!(
        shown(ADD, Profile::Card, &[("c", "m")]),
        "  a  in     m x n  sticks along n
  b  in     m x n  sticks along n
  c  out    m x n  sticks along m
restickify
  what is stored to c  from n to m
"
    );
}

#[test]
fn a_broadcast_operand_has_one_element_in_each_stick() {
    let text = "kernel bias(m, n) {
    in x: float16[m, n]
    in row: float16[n]
    in column: float16[m]
    out y: float16[m, n]
    y = x + row + column
}";
    assert_eq!(
        shown(text, Profile::Card, &[]),
        "  x       in     m x n  sticks along n
  row     in     n      sticks along n
  column  in     m      sticks along m
  y       out    m x n  sticks along n
restickify
  column  from m to sparse
"
    );
}

#[test]
fn a_product_wants_its_depth_on_the_left_and_its_width_on_the_right() {
    assert!(!shown(MATMUL, Profile::Card, &[]).contains("restickify"));
    assert_eq!(
        shown(MATMUL, Profile::Card, &[("a", "m"), ("b", "k")]),
        "  a  in     m x k  sticks along m
  b  in     k x n  sticks along k
  c  out    m x n  sticks along m
",
        "the other way round, nothing is turned"
    );
    assert_eq!(
        shown(MATMUL, Profile::Card, &[("b", "k")]),
        "  a  in     m x k  sticks along k
  b  in     k x n  sticks along k
  c  out    m x n  sticks along n
restickify
  b  from k to n
"
    );
}

#[test]
fn reductions_along_sticks_are_sparse_on_the_card_and_dense_elsewhere() {
    let text = "kernel rows(i, j) {
    in x: float16[i, j]
    out y: float16[i]
    y = sum<j>(x)
}";
    let sparse = shown(text, Profile::Card, &[]);
    assert!(sparse.contains("y  out    i      one element in each stick"), "{sparse}");
    let dense = shown(text, Profile::Open, &[]);
    assert!(dense.contains("y  out    i      sticks along i"), "{dense}");
    let across = shown(text, Profile::Card, &[("x", "i")]);
    assert!(across.contains("y  out    i      sticks along i"), "{across}");
}

#[test]
fn softmax_needs_no_turn() {
    let text = "kernel softmax(rows, columns) {
    in x: float16[rows, columns]
    out y: float16[rows, columns]
    e = exp(x - max<columns>(x))
    y = e / sum<columns>(e)
}";
    assert_eq!(
        shown(text, Profile::Card, &[]),
        "  x  in     rows x columns  sticks along columns
  y  out    rows x columns  sticks along columns
"
    );
}

#[test]
fn what_was_computed_is_turned_too() {
    let text = "kernel gram(m, k, n) {
    in a: float16[m, k]
    in b: float16[m, n]
    in c: float16[m, k]
    out y: float16[k, n]
    h = a * c
    y = sum<m>(h * b)
}";
    let kernel: Kernel = text.parse().expect("a kernel");
    let layouts = kernel.layouts(Profile::Card, &[]);
    assert_eq!(layouts.restickify.len(), 1);
    assert!(matches!(layouts.restickify[0].what, Restickified::Value(_)));
    let shown = layouts.show(&kernel).to_string();
    assert!(shown.ends_with("restickify\n  h  from k to m\n"), "{shown}");
}

#[test]
fn of_what_is_made_from_one_tensor_that_tensor_is_turned() {
    let text = "kernel gram(m, k, n) {
    in a: float16[m, k]
    in b: float16[m, n]
    out y: float16[k, n]
    h = exp(a * 2)
    y = sum<m>(h * b)
}";
    let kernel: Kernel = text.parse().expect("a kernel");
    let shown = kernel.layouts(Profile::Card, &[]).show(&kernel).to_string();
    assert!(shown.ends_with("restickify\n  a  from k to m\n"), "{shown}");
}
