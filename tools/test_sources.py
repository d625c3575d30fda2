"""Tests of `sources`: `tools/report --self-test`."""

from __future__ import annotations

import unittest

from sources import code_lines, functions, masked, without_tests

RUST = r'''
/// Not `fn in_a_comment() {`.
pub(crate) const fn plain() {}

impl<'a> Thing<'a> {
    fn lifetimes<'b>(&'b self, quote: char) -> &'a str {
        let braces = ['{', '\'', '\\', '\u{7b}', b'}'];
        let text = "a \" and { and \
                    fn inside() {";
        let raw = r#"fn raw() { " }"#; // a brace {
        /* a comment /* in a comment { */ { */
        fn nested() -> u8 {
            1
        }
        'outer: loop {
            break 'outer;
        }
        text
    }

    fn array(of: [u8; { 1 + 1 }]) -> fn(u8) -> u8
    where
        Self: Sized,
    {
        todo
    }

    fn without_body(&self) -> [u8; 4];
}

macro_rules! make {
    ($name:ident) => {
        fn $name() {
        }
    };
}
'''

CPP = r'''
#define OPEN {
// int commented() {
namespace spyre {
template <class A, Tensor (*usual)(const Tensor&)>
struct Guard final : Base<A> {
  Guard(int size, std::vector<int> list = {1, 2})
      : size_{size}, list_(std::move(list)), rest_{} {
    open();
  }
  ~Guard() override { close(); }
  bool operator==(const Guard& other) const { return true; }
  void operator()(int size) const {
  }
 private:
  int declared(int) const;
  int size_ = 1'000'000, brace = '{';
  int list_[2] = {1, 2};
};

template <Name name, Tensor (*usual)(const Tensor&)>
static Tensor make(const Tensor& self) {
  const auto each = [&](int at) {
    if (at) {
      print("} \" {", R"x(} )" { )x");
    }
  };
  return usual(self);
}
const int table[] = {f(1), f(2)};
const bool is_set = [] {
  return true;
}();
enum class Kind : int { One, Two };
extern "C" {
const char* name(void) noexcept {
  return "{";
}
}
REGISTER(Guard)
auto late(int a) -> std::vector<int> {
  return {a};
}
TORCH_LIBRARY(spyre, m) {
  m.def("x");
}
}  // namespace spyre
'''

PYTHON = '''
# A comment.
@decorated
def outer():
    """A docstring: def not_one():"""

    def inner():
        pass

    return inner


class Thing:
    async def method(self): ...
'''


class FunctionsTest(unittest.TestCase):
    def check(self, text: str, suffix: str, expected: list[tuple[str, int]]) -> None:
        self.assertEqual([(found.name, found.lines) for found in functions(text, suffix)], expected)

    def test_rust(self) -> None:
        expected = [("plain", 1), ("lifetimes", 14), ("nested", 3), ("array", 6), ("$name", 2)]
        self.check(RUST, ".rs", expected)

    def test_cpp(self) -> None:
        members = [("Guard", 4), ("~Guard", 1), ("operator==", 1), ("operator()", 2)]
        self.check(CPP, ".cpp", [*members, ("make", 9), ("name", 3), ("late", 4), ("TORCH_LIBRARY", 3)])

    def test_python(self) -> None:
        self.check(PYTHON, ".py", [("outer", 7), ("inner", 2), ("method", 1)])

    def test_first_lines_are_those_of_the_text(self) -> None:
        for text, suffix, start in ((RUST, ".rs", "fn lifetimes"), (CPP, ".cpp", "const char* name")):
            name = start.split()[-1].strip("*")
            found = next(found for found in functions(text, suffix) if found.name == name)
            self.assertIn(start, text.splitlines()[found.first - 1])


class LinesTest(unittest.TestCase):
    def test_masks_keep_lines(self) -> None:
        for text, suffix in ((RUST, ".rs"), (CPP, ".cpp")):
            self.assertEqual(masked(text, suffix).count("\n"), text.count("\n"))

    def test_comments_and_blank_lines_are_not_code(self) -> None:
        text = '/// Doc.\n\nlet a = "//"; // why\n/* two\nlines */\nlet b = "one \\\n    two";\n'
        self.assertEqual(code_lines(text, ".rs"), 3)
        self.assertEqual(code_lines("#include <a>\n// no\nint a;\n", ".h"), 2)
        self.assertEqual(code_lines("# no\n\na = 1\n", ".py"), 1)

    def test_unit_tests_end_a_file_and_test_files_do_not(self) -> None:
        self.assertEqual(without_tests("a\n#[cfg(test)]\nmod tests {\n}\n"), "a\n")
        self.assertEqual(without_tests("#[cfg(test)]\nmod tests;\na\n"), "#[cfg(test)]\nmod tests;\na\n")


if __name__ == "__main__":
    unittest.main()
