// See yaml_tree.h.
#include "config/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <unordered_map>

namespace zvolt::config {
namespace {

// Thrown inside the event handler only, to leave yaml-cpp's recursion; caught in parse().
struct Refused {
  int line;
  int column;
  std::string message;
};

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::deque<Node>& nodes, const std::string& file) : nodes_(nodes), file_(file) {}
  const Node* root() const { return root_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { place(make(mark, anchor, Node::Kind::null)); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node& node = make(mark, anchor, Node::Kind::scalar);
    for (const char c : value)  // "\\0" and the like in quotes; names and paths go to the kernel as C strings
      if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) refuse(mark, "control character in a value");
    node.text = value;
    node.plain = tag == "?";
    place(node);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(make(mark, anchor, Node::Kind::list));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(make(mark, anchor, Node::Kind::map));
  }
  void OnMapEnd() override { close(); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) refuse(mark, "alias of an anchor that is not defined");
    for (const Frame& frame : stack_)
      if (frame.node == found->second) refuse(mark, "alias of a map or list that contains it");
    place(*found->second);
  }

 private:
  struct Frame {
    Node* node;
    const Node* key = nullptr;  // map: a key that waits for its value
  };

  [[noreturn]] static void refuse(const YAML::Mark& mark, std::string message) {
    throw Refused{mark.line + 1, mark.column + 1, std::move(message)};
  }

  Node& make(const YAML::Mark& mark, YAML::anchor_t anchor, Node::Kind kind) {
    Node& node = nodes_.emplace_back();
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    node.file = &file_;
    if (anchor != YAML::NullAnchor) anchors_[anchor] = &node;
    return node;
  }

  void open(Node& node) {
    if (stack_.size() >= kMaxDepth)
      throw Refused{node.line, node.column, "more than " + std::to_string(kMaxDepth) + " levels of maps and lists"};
    stack_.push_back({&node});
  }

  void close() {
    Node& node = *stack_.back().node;
    stack_.pop_back();
    place(node);
  }

  // Hands a finished node to the map or list around it.
  void place(const Node& node) {
    if (stack_.empty()) {
      root_ = &node;
      return;
    }
    Frame& frame = stack_.back();
    frame.node->weight += node.weight;
    if (frame.node->weight > kMaxNodes)
      throw Refused{node.line, node.column, "more than " + std::to_string(kMaxNodes) + " values (aliases counted)"};
    if (frame.node->kind == Node::Kind::list) {
      frame.node->items.push_back(&node);
    } else if (frame.key == nullptr) {
      frame.key = &node;
    } else {
      frame.node->entries.emplace_back(frame.key, &node);
      frame.key = nullptr;
    }
  }

  std::deque<Node>& nodes_;
  const std::string& file_;
  std::vector<Frame> stack_;
  std::unordered_map<YAML::anchor_t, Node*> anchors_;
  const Node* root_ = nullptr;
};

// Length of the UTF-8 sequence at `at`, 0 when there is none (RFC 3629: no overlong forms, no surrogates).
size_t utf8_length(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) -> unsigned { return at + i < text.size() ? static_cast<uint8_t>(text[at + i]) : 0; };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned b = byte(0);
  if (b < 0x80) return 1;
  if (b >= 0xC2 && b <= 0xDF) return tail(1) ? 2 : 0;
  if (b >= 0xE0 && b <= 0xEF) {
    if (!tail(1) || !tail(2)) return 0;
    if ((b == 0xE0 && byte(1) < 0xA0) || (b == 0xED && byte(1) > 0x9F)) return 0;
    return 3;
  }
  if (b >= 0xF0 && b <= 0xF4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if ((b == 0xF0 && byte(1) < 0x90) || (b == 0xF4 && byte(1) > 0x8F)) return 0;
    return 4;
  }
  return 0;
}

// yaml-cpp replaces bad UTF-8 silently and takes control characters for text: both are refused here with their place.
bool check_characters(const std::string& text, const std::string& file, std::vector<Problem>& problems) {
  int line = 1, column = 1;
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    const auto c = static_cast<uint8_t>(text[i]);
    const bool control = (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
    if (length == 0 || control) {
      problems.push_back({{file, line, column}, length == 0 ? "not UTF-8" : "control character in the file"});
      return false;
    }
    if (c == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
    i += length;
  }
  return true;
}

}  // namespace

YamlTree YamlTree::parse(const std::string& text, const std::string& file, std::vector<Problem>& problems) {
  YamlTree tree;
  tree.file_ = std::make_unique<std::string>(file);
  if (text.size() > kMaxFileBytes) {
    problems.push_back({{file, 1, 1}, "the file is larger than " + std::to_string(kMaxFileBytes >> 20) + " MiB"});
    return tree;
  }
  if (!check_characters(text, file, problems)) return tree;
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    TreeBuilder builder(tree.nodes_, *tree.file_);
    if (!parser.HandleNextDocument(builder) || builder.root() == nullptr) {
      Node& empty = tree.nodes_.emplace_back();
      empty.line = empty.column = 1;
      empty.file = tree.file_.get();
      tree.root_ = &empty;
      return tree;
    }
    std::deque<Node> more;
    TreeBuilder second(more, *tree.file_);
    if (parser.HandleNextDocument(second) && second.root() != nullptr) {
      problems.push_back(
          {{file, second.root()->line, second.root()->column}, "more than one YAML document in the file"});
      return tree;
    }
    tree.root_ = builder.root();
  } catch (const Refused& refused) {
    problems.push_back({{file, refused.line, refused.column}, refused.message});
  } catch (const YAML::Exception& e) {
    const bool known = !e.mark.is_null();
    problems.push_back({{file, known ? e.mark.line + 1 : 1, known ? e.mark.column + 1 : 1}, "YAML: " + e.msg});
  } catch (const std::exception& e) {
    problems.push_back({{file, 1, 1}, std::string("YAML: ") + e.what()});
  }
  return tree;
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "nothing";
    case Node::Kind::list:
      return "a list";
    case Node::Kind::map:
      return "a map";
    case Node::Kind::scalar:
      break;
  }
  constexpr size_t kShown = 40;  // characters of a wrong value that a message repeats
  if (!node.plain && node.text.size() <= kShown) return "\"" + node.text + "\"";
  if (node.text.size() <= kShown) return "'" + node.text + "'";
  size_t cut = kShown;
  while (cut > 0 && (static_cast<uint8_t>(node.text[cut]) & 0xC0) == 0x80) --cut;
  return "'" + node.text.substr(0, cut) + "...'";
}

}  // namespace zvolt::config
