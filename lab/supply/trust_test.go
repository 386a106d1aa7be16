package supply

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"

	"homelab/lab"
	"homelab/lab/supply/archive"
)

func wantCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	var e *lab.Error
	if !errors.As(err, &e) || e.Code != code || e.Exit != lab.ExitInvalid {
		t.Errorf("%s: got %v, want %s", what, err, code)
	}
}

// A bundle is used only after a person has accepted it, by its digest, its signature, or as it is.
func TestTrust(t *testing.T) {
	file := save(t, makeGoods(t))
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	public, private, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := private.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Sign(t.Context(), file, keyFile, nil); err != nil {
		t.Fatal(err)
	}
	ask := func(yes bool) func(context.Context, Bundle) (bool, error) {
		return func(_ context.Context, b Bundle) (bool, error) {
			if b.SHA256 != digest || b.Made.By != "v0.0.0-test" || len(b.Images) != 2 {
				t.Errorf("asked about %+v", b)
			}
			return yes, nil
		}
	}
	for name, test := range map[string]struct {
		terms Terms
		code  string
	}{
		"nobody asked":       {Terms{}, "untrusted_bundle"},
		"no":                 {Terms{Ask: ask(false)}, "untrusted_bundle"},
		"yes":                {Terms{Ask: ask(true)}, ""},
		"whatever it is":     {Terms{Any: true}, ""},
		"its digest":         {Terms{SHA256: digest}, ""},
		"with the algorithm": {Terms{SHA256: "sha256:" + strings.ToUpper(digest)}, ""},
		"another digest":     {Terms{SHA256: strings.Repeat("0", 64), Any: true, Ask: ask(true)}, "digest_differs"},
		"its signature":      {Terms{Key: public.String()}, ""},
		"another key":        {Terms{Key: other.String(), Any: true}, "bad_signature"},
		"no key":             {Terms{Key: "x"}, "usage"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Mode: Mode("bundle=" + file), CacheDir: t.TempDir(), StateDir: t.TempDir()}
			_, err := Accept(t.Context(), o, file, test.terms, nil)
			if test.code != "" {
				wantCode(t, "accept", err, test.code)
			} else if err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), o) // lists what the bundle has, and loads nothing
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Image(t.Context(), "node", nil)
			if test.code == "" {
				if err != nil {
					t.Error(err)
				}
				if _, err := Accept(t.Context(), o, file, Terms{}, nil); err != nil {
					t.Errorf("asked again: %v", err)
				}
				return
			}
			wantCode(t, "image", err, "untrusted_bundle")
			_, err = Load(t.Context(), o, file, nil)
			wantCode(t, "load", err, "untrusted_bundle")
		})
	}
}

// A signature is of one file.
func TestSignatureOfAnotherBundle(t *testing.T) {
	public, private, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := minisign.EncryptKey("secret", private)
	if err != nil {
		t.Fatal(err)
	}
	file, other, keyFile := save(t, makeGoods(t)), save(t, makeGoods(t)), filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "wrong password", Sign(t.Context(), file, keyFile, func() (string, error) { return "wrong", nil }), "usage")
	if err := Sign(t.Context(), file, keyFile, func() (string, error) { return "secret", nil }); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+signatureSuffix, other+signatureSuffix); err != nil {
		t.Fatal(err)
	}
	for _, bundle := range []string{file, other} { // without a signature, and with that of another
		_, err = Accept(t.Context(), Options{StateDir: t.TempDir()}, bundle, Terms{Key: public.String()}, nil)
		wantCode(t, bundle, err, "bad_signature")
	}
}

// What a bundle says that it holds is compared with lab's pins.
func TestBundleAgainstPins(t *testing.T) {
	const ref, chartVersion = "registry.k8s.io/metrics-server/metrics-server:v0.9.0", "3.13.1"
	key := strings.Repeat("a", 64)
	built := makeImageOf(t, "metrics-server", ref, key)
	pretended := makeImage(t, "metrics-server", ref)
	pretended.Manifests = `{"config":{"digest":"` + pretended.Digest + `"}}`
	chart := makeChart(t, "metrics-server", chartVersion)
	chartOfRecipe := chart
	chartOfRecipe.Key = key
	for name, test := range map[string]struct {
		goods archive.Goods
		want  string // check of the first item; empty if the bundle is refused
	}{
		"an image of a recipe":       {archive.Goods{Images: []lab.Image{built}}, "claim"},
		"an image without an origin": {archive.Goods{Images: []lab.Image{makeImage(t, "metrics-server", ref)}}, ""},
		"an image of another digest": {archive.Goods{Images: []lab.Image{pretended}}, ""},
		"an image that lab pins not": {archive.Goods{Images: []lab.Image{makeImage(t, "metrics-server", "example.com/x:1")}}, "first-use"},
		"a chart of a recipe":        {archive.Goods{Charts: []lab.Chart{chartOfRecipe}}, "claim"},
		"a chart of another digest":  {archive.Goods{Charts: []lab.Chart{chart}}, ""},
		"a chart of unknown digest":  {archive.Goods{Charts: []lab.Chart{makeChart(t, "podinfo", "6.9.2")}}, "first-use"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "lab.tar.zst")
			if err := archive.Save(t.Context(), file, test.goods, nil); err != nil {
				t.Fatal(err)
			}
			o := Options{CacheDir: t.TempDir(), Arch: "amd64"}
			s, err := load(t, &o, file)
			if test.want == "" {
				var e *lab.Error
				if !errors.As(err, &e) || e.Code != "digest_differs" || len(e.Details) != 2 || e.Cure == "" {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			items, err := s.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range items {
				if own := i.Name == "door" || i.Name == "front" || i.Name == "gate"; !own && (string(i.Verdict.Check) != test.want || i.Verdict.Why == "") {
					t.Errorf("%s: %+v", i.Name, i.Verdict)
				}
			}
		})
	}
}
