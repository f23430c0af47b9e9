// The machine that reads pickles: what it builds, and everything that it must refuse without running anything.
#include <doctest/doctest.h>

#include <ctime>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "data/pickle.h"
#include "tests/shared.h"
#include "tests/torch_files.h"

namespace mixtape::data {
namespace {
using namespace tests;
using namespace std::string_literals;
using Kind = PickleValue::Kind;

constexpr std::string_view allowed[] = {"known.thing"};

ParsedPickle parse_stream(std::string_view bytes) {
  return parse_pickle(std::as_bytes(std::span(bytes.data(), bytes.size())), allowed);
}

struct Case {
  std::string bytes, words;
};

const std::vector<Case> refused = {
    {"", "cut off"},
    {"<html>", "no pickle of protocol"},
    {"\x80\x01.", "no pickle of protocol"},
    {"\x80\x06N.", "no pickle of protocol"},
    {"\x80\x02", "cut off"},
    {"\x80\x02.", "stack is empty"},
    {"\x80\x02NN.", "left over"},
    {"\x80\x02(N.", "left over"},
    {"\x80\x02N", "cut off"},
    {"\x80\x02X\xFF\xFF\xFF\xFF", "longer than any"},
    {"\x80\x02X\x05\0\0\0ab"s, "cut off"},
    {"\x80\x02\x8D" + little(~uint64_t{0}, 8), "longer than any"},
    {"\x80\x02U\x05"
     "ab",
     "cut off"},
    {"\x80\x02G\0\0"s, "cut off"},
    {"\x80\x02\x8A\x08\x01", "cut off"},
    {"\x80\x02\x8A\xFF"
     "ab",
     "cut off"},
    {pickle_of(global_op("builtins", "print") + text_op("hi") + "\x85R"), "\"builtins.print\""},
    {pickle_of(global_op("os", "system")), "\"os.system\""},
    {pickle_of(global_op("known", "thing.more")), "\"known.thing.more\""},
    {pickle_of(text_op("os") + text_op("system") + "\x93"), "\"os.system\""},
    {pickle_of("NN\x93"), "not named by texts"},
    {"\x80\x02"
     "cos",
     "cut off"},
    {"\x80\x02"
     "c" +
         repeated("x", 600),
     "more than 512 bytes"},
    {pickle_of("(i__builtin__\neval\n"), "0x69 (INST)"},
    {pickle_of("(No"), "0x6f (OBJ)"},
    {pickle_of("N)\x81"), "0x81 (NEWOBJ)"},
    {pickle_of("N)}\x92"), "0x92 (NEWOBJ_EX)"},
    {pickle_of("\x82\x01"), "0x82 (EXT1)"},
    {pickle_of("P1\n"), "0x50 (PERSID)"},
    {pickle_of("I1\n"), "0x49 (INT)"},
    {pickle_of("\x8F"), "0x8f (a set)"},
    {pickle_of("\xFF"), "0xff"},
    {pickle_of("N)R"), "a call of something"},
    {pickle_of(global_op("known", "thing") + "]R"), "a call of something"},
    {pickle_of("K\x01)R"), "a call of something"},
    {pickle_of(global_op("known", "thing") + ")R}b"), "attributes of something other than a dict"},
    {pickle_of("]Nb"), "attributes of something other than a dict"},
    {pickle_of("NQ"), "identifier is no tuple"},
    {pickle_of("h\x05"), "never filled"},
    {pickle_of("j\xFF\xFF\xFF\xFF"), "never filled"},
    {pickle_of("Nr\xFF\xFF\xFF\xFF"), "memo place"},
    {pickle_of("q\x01"), "stack is empty"},
    {pickle_of("t"), "no mark"},
    {pickle_of("Nt"), "no mark"},
    {pickle_of("e"), "no mark"},
    {pickle_of("N(\x85"), "stack is empty"},
    {pickle_of("N(Ne"), "only a list takes items"},
    {pickle_of("](NNu"), "only a dict takes"},
    {pickle_of("}(Nu"), "a key without a value"},
    {pickle_of("(Nd"), "a key without a value"},
    {pickle_of("(0"), "stack is empty"},
    {pickle_of("}a"), "only a list takes items"},
    {pickle_of(global_op("collections", "OrderedDict") + "N\x85R"), "something odd"},
    {pickle_of(global_op("collections", "OrderedDict") + "](]e\x85R"), "something odd"},
    {pickle_of(repeated("(", 100'000)), "more than 256 open marks"},
    {pickle_of(repeated("N", 300'000)), "more values on the stack"},
    {pickle_of("(" + repeated("]", 250'000) + "t0(" + repeated("]", 250'000) + "t0(" + repeated("]", 250'000) + "t"),
     "more objects"},
};
}  // namespace

TEST_CASE("pickle: values, containers, memo and persistent objects") {
  const std::string bytes = pickle_of("}q\x00("s + text_op("a") + "K\x07" + text_op("b") + int_op(-5) + "K\x09" +
                                      "J\xFE\xFF\xFF\xFF" + text_op("c") + "](NG" + little(0, 8) + "\x88h\x00"s + "eu");
  const ParsedPickle parsed = parse_stream(bytes);
  REQUIRE_MESSAGE(parsed.value, parsed.error);
  const Pickle& pickle = *parsed.value;
  CHECK(pickle.bytes.size() == bytes.size());
  REQUIRE(pickle.root.kind == Kind::dict);
  const auto items = pickle.items(pickle.root);
  REQUIRE(items.size() == 8);
  CHECK(pickle.text(items[0]) == "a");
  CHECK(items[1].integer() == 7);
  CHECK(items[3].integer() == -5);
  CHECK(items[4].integer() == 9);
  CHECK(items[5].integer() == -2);
  const auto list = pickle.items(items[7]);
  REQUIRE(list.size() == 4);
  CHECK(list[0].kind == Kind::none);
  CHECK(list[1].kind == Kind::real);
  CHECK(list[2].kind == Kind::boolean);
  CHECK(list[3].place == pickle.root.place);  // the memo gives the same object: a cycle, which only a walker minds
}

TEST_CASE("pickle: calls are kept as what stands in them, dicts of attributes are dropped") {
  const ParsedPickle called = parse_stream(pickle_of(call_op(global_op("known", "thing"), {"K\x01", "(K\x02tQ"})));
  REQUIRE_MESSAGE(called.value, called.error);
  REQUIRE(called.value->root.kind == Kind::call);
  const auto items = called.value->items(called.value->root);
  REQUIRE(items.size() == 3);
  CHECK(items[0].place == 0);
  CHECK(items[2].kind == Kind::persistent);
  CHECK(called.value->items(items[2])[0].integer() == 2);

  const std::string ordered = global_op("collections", "OrderedDict");
  const ParsedPickle dict =
      parse_stream(pickle_of(ordered + ")R(" + text_op("k") + "Nu}" + text_op("_metadata") + "Nsb"));
  REQUIRE_MESSAGE(dict.value, dict.error);
  CHECK(dict.value->root.kind == Kind::dict);
  CHECK(dict.value->items(dict.value->root).size() == 2);
  const ParsedPickle python2 = parse_stream(pickle_of(ordered + "](](U\x01kNee\x85R"));  // OrderedDict([["k", None]])
  REQUIRE_MESSAGE(python2.value, python2.error);
  CHECK(python2.value->items(python2.value->root).size() == 2);
}

TEST_CASE("pickle: protocol 4 frames, memoize and stack globals") {
  const std::string body = "\x8C\x05known\x94\x8C\x05thing\x94\x93)R\x94.";
  const ParsedPickle parsed = parse_stream("\x80\x04\x95" + little(body.size(), 8) + body);
  REQUIRE_MESSAGE(parsed.value, parsed.error);
  CHECK(parsed.value->root.kind == Kind::call);
}

TEST_CASE("pickle: what must be refused is, with the reason, at once") {
  for (size_t i = 0; i < refused.size(); ++i) {
    CAPTURE(i);
    const std::clock_t start = std::clock();
    const ParsedPickle parsed = parse_stream(refused[i].bytes);
    CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < 1.0);
    CHECK_FALSE(parsed.value);
    CAPTURE(parsed.error);
    CHECK(contains(parsed.error, refused[i].words));
  }
  CHECK(refused.size() >= 50);
}

TEST_CASE("pickle: cut anywhere it says so, and random changes never break it") {
  const std::string whole = pickle_of(dict_op({{"w", tensor_op({})}, {"x", "](NNe"}}));
  const std::vector<std::string_view> globals = {"torch._utils._rebuild_tensor_v2", "torch.FloatStorage"};
  const auto parse_it = [&](std::string_view bytes) {
    return parse_pickle(std::as_bytes(std::span(bytes.data(), bytes.size())), globals);
  };
  REQUIRE(parse_it(whole).value);
  for (size_t size = 0; size < whole.size(); ++size) CHECK(parse_it(whole.substr(0, size)).cut_off);
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = whole;
    for (uint32_t count = 1 + random() % 3; count > 0; --count) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    const ParsedPickle parsed = parse_it(changed);
    CHECK(parsed.value.has_value() == parsed.error.empty());
  }
}

}  // namespace mixtape::data
