package strict

import (
	gojson "encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"
)

// alike compares what is read from a node with what is read from its text.
func alike(t *testing.T, at string, n *yaml.Node) {
	t.Helper()
	got, err := value(n)
	if err != nil {
		return // it is written
	}
	text, err := written(n)
	if err != nil {
		return // a literal that begins with a tab cannot be written
	}
	if data, _ := gojson.Marshal(got); string(data) != string(text) {
		t.Errorf("%s: %s\nwant %s", at, data, text)
	}
	var want any
	if err := json.UnmarshalCaseSensitivePreserveInts(text, &want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %#v\nwant %#v; %v", at, got, want, err)
	}
}

func TestValue(t *testing.T) {
	scalars := strings.Fields(`a y Y yes Yes YES yEs n no NO on Off true TRUE false ~ null Null nUll 0 1 80 -1 +1 007 010 0o10 0x1F 0b101 -0b101 1_000 1.0 1. .5 -.5 5. 1e3 1E-3 1e21 1e400 -0 -0.0 0.1
		1.0.0 1.2.3-4 12:30 12:30:45 2006-01-02 2006-01-02T15:04:05Z .inf -.inf +.inf .nan . .. ... - -- --- -a --1 ...1 ---1 + +a .a 1a 0x 0xg 1__0 _1 +_0 -_1 ._5 9223372036854775807 9223372036854775808
		18446744073709551615 99999999999999999999 123456789012345678 1234567890123456789 << = ! a:b a#b é`)
	scalars = append(scalars, "", " ", "a b", "2006-01-02 15:04:05", "a: b", "- a", "a\nb", "1\n", "\n", "\t", "{a", "[", "a #b", "&a", "*a", "1 2")
	for _, text := range scalars {
		for _, tag := range []string{"", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!binary"} {
			for _, style := range []yaml.Style{0, yaml.TaggedStyle, yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle, yaml.LiteralStyle} {
				if text == "" && style == 0 { // read as null, and written as '' in a flow mapping
					continue
				}
				n := &yaml.Node{Kind: yaml.ScalarNode, Value: text, Tag: tag, Style: style}
				alike(t, text+" "+tag, n)
				alike(t, text+" "+tag+" as a value", &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: "k"}, n}})
				alike(t, text+" "+tag+" as a key", &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{n, {Kind: yaml.ScalarNode, Tag: "!!str", Value: "v"}}})
			}
		}
	}
	for _, text := range []string{"{}", "[]", "a:", "a: &x 1\nb: *x", "<<: {a: b}", "a: 1\na: 2", "1: a", "true: b", "? [a]\n: b", "a: |\n  b\n\n", "a: >-\n  b\n  c", "a: !!str 1", "a: !x b"} {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		alike(t, text, doc.Content[0])
	}
}

// The documents of this repository are read alike.
func TestValueOfDocuments(t *testing.T) {
	files, fast, all := 0, 0, 0
	for _, root := range []string{"../../addons", "../../environments", "../../clusters", "../render/testdata/cases", "../fluxset/testdata/cases"} {
		err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(name) != ".yaml" {
				return err
			}
			data, err := os.ReadFile(name)
			if err != nil { // a dangling link
				return nil //nolint:nilerr // as said
			}
			docs, problems := Parse(name, data)
			if len(problems) > 0 {
				return nil
			}
			files++
			for _, doc := range docs {
				all++
				if _, err := value(doc); err == nil {
					fast++
				}
				alike(t, name, doc)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files == 0 || fast < all*9/10 {
		t.Errorf("%d files, %d of %d documents are read without writing them", files, fast, all)
	}
}

// An empty value is null, also within brackets and beside a tag, for which a node is written out.
func TestEmptyValues(t *testing.T) {
	for _, text := range []string{"[A: ]", "{A: , b: }", "[&x , *x]", "{a: , b: &x 1, c: *x}", "{a: !!null , b: 1}", "a: &x\nb: *x\n", "a: &x ''\nb: *x\n", "{a: , b: !!str 1}"} {
		docs, problems := Parse("a.yaml", []byte(text))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		got, err := JSON(docs[0])
		want, direct := sigsyaml.YAMLToJSON([]byte(text))
		if err != nil || direct != nil || string(got) != string(want) {
			t.Errorf("%q: %s, %v; want %s, %v", text, got, err, want, direct)
		}
	}
}

func FuzzValue(f *testing.F) {
	for _, seed := range []string{"[A: ]", "+_0", "a: 1\nb: [x, 'y', \"z\"]\n", "0o7: 0x1\n? 1_0\n: ~\n", "a: |\n  b\nc: >-\n  d\n", "- &a yes\n- *a\n- !!str 1\n", "a: 1e3\nb: -.inf\nc: 2006-01-02\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		docs, problems := Parse("a.yaml", []byte(text))
		if len(problems) > 0 {
			return
		}
		for _, doc := range docs {
			alike(t, text, doc)
		}
	})
}
