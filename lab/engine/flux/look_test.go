package flux

import (
	"errors"
	"testing"
)

func TestLookErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, kind := range []string{"secrets", "gitrepositories", "helmcharts", "artifactgenerators", "externalartifacts", "ocirepositories", "buckets", "kustomizations", "helmreleases"} {
		f, hub, _ := newFake(t, generating())
		if _, err := f.Applications(t.Context()); err != nil {
			t.Fatal(err)
		}
		hub.Refuse("list "+kind, broken)
		if _, err := f.Applications(t.Context()); !errors.Is(err, broken) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
