package live

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	memory "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"homelab/lab/registry"
	"homelab/lab/scenario/scenariotest"
)

func TestRegistryContract(t *testing.T) {
	s := httptest.NewServer(memory.New(memory.Logger(log.New(io.Discard, "", 0))))
	defer s.Close()
	dir := t.TempDir()
	for _, image := range []string{"one", "two"} {
		img, err := random.Image(100, 1)
		if err != nil {
			t.Fatal(err)
		}
		tag, err := name.NewTag("example.com/" + image)
		if err != nil {
			t.Fatal(err)
		}
		if err := tarball.WriteToFile(filepath.Join(dir, image), tag, img); err != nil {
			t.Fatal(err)
		}
	}
	scenariotest.RegistryContract(t, Registry{
		Client: func(context.Context) (registry.Client, error) {
			return registry.Client{Address: strings.TrimPrefix(s.URL, "http://"), User: "lab", Password: "secret"}, nil
		},
		Archive: func(_ context.Context, image string) (string, func(), error) {
			if image != "one" && image != "two" {
				return "", nil, errors.New("no image " + image)
			}
			return filepath.Join(dir, image), func() { /* kept */ }, nil
		},
	})
}
