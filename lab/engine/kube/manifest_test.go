package kube

import "testing"

func TestDecode(t *testing.T) {
	objects, err := Decode([]byte("# a comment\n---\nkind: A\n---\n{\"kind\": \"B\"}\n---\n"))
	if err != nil || len(objects) != 2 || objects[0].GetKind() != "A" || objects[1].GetKind() != "B" {
		t.Errorf("%v, %v", objects, err)
	}
	for _, broken := range []string{"", "---\n# nothing\n", "kind: [", "- a list\n"} {
		if _, err := Decode([]byte(broken)); err == nil {
			t.Errorf("%q: no error", broken)
		}
	}
}

func TestDigest(t *testing.T) {
	if a, b := Digest(map[string]any{"x": 1, "y": 2}, "z"), Digest(map[string]any{"y": 2, "x": 1}, "z"); a != b || len(a) != 64 {
		t.Errorf("%s, %s", a, b)
	}
	if Digest("a") == Digest("b") || Digest("a", "b") == Digest("b", "a") {
		t.Error("same digest for different parts")
	}
}
