package helm

import (
	"context"
	"errors"
	"testing"
)

func TestRemove(t *testing.T) {
	f := newFixture(t)
	if err := f.Remove(t.Context(), f.want.Name); err != nil {
		t.Errorf("missing release: %v", err)
	}
	if _, err := f.Ensure(t.Context(), f.want, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if err := f.Remove(t.Context(), f.want.Name); err != nil {
		t.Fatal(err)
	}
	if s, err := f.Observe(t.Context(), f.want.Name); err != nil || s.Revision != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := f.Remove(t.Context(), f.want.Name); err != nil {
		t.Errorf("second call: %v", err)
	}
	refused := errors.New("refused")
	f.newest = func(context.Context, string) (int, error) { return 0, refused }
	if err := f.Remove(t.Context(), f.want.Name); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
}
