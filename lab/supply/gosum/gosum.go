// Package gosum downloads the Go modules of recipes and verifies them against recorded sums, whatever GOSUMDB is.
package gosum

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"homelab/lab"
)

// recorded has the format of go.sum. It holds the modules of all recipes, and what their dependencies add to upstream's
// go.sum, which lies in the module and is thereby checked. `task sums` writes it, from the public checksum database.
//
//go:embed recorded.sum
var recorded []byte

// Sums are the sums of modules ("PATH VERSION") and of their go.mod files ("PATH VERSION/go.mod").
type Sums map[string]string

// Recorded returns the sums that lab was made with.
var Recorded = sync.OnceValue(func() Sums { return Parse(recorded) })

// Parse reads a go.sum. Other lines than sums are ignored, as by the go command.
func Parse(text []byte) Sums {
	s := Sums{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 {
			s[f[0]+" "+f[1]] = f[2]
		}
	}
	return s
}

// Join returns the sums of all; the first one that has a module decides.
func Join(all ...Sums) Sums {
	out := Sums{}
	for _, s := range slices.Backward(all) {
		maps.Copy(out, s)
	}
	return out
}

// Text formats the sums as a go.sum.
func (s Sums) Text() []byte {
	var text bytes.Buffer
	for _, of := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintln(&text, of, s[of])
	}
	return text.Bytes()
}

// Of returns the sum of a module "PATH@VERSION", or "".
func (s Sums) Of(at string) string { return s[strings.Replace(at, "@", " ", 1)] }

// toolchain is the module of a Go toolchain, whose version names Go's version and the platform: "v0.0.1-go1.27.3.linux-amd64".
const toolchain = "golang.org/toolchain"

// Toolchain returns the recorded Go version, "go1.27.3", with which recipes are built on a platform ("linux-amd64"); empty if there is none.
func (s Sums) Toolchain(platform string) string {
	for of := range s {
		path, version, _ := strings.Cut(of, " ")
		if name, ok := strings.CutSuffix(strings.TrimPrefix(version, "v0.0.1-"), "."+platform); ok && path == toolchain {
			return name
		}
	}
	return ""
}

// Env returns what selects the recorded toolchain, for the environment of the go command. Its module is downloaded and checked first. The local one is used if
// none is recorded.
func (s Sums) Env(ctx context.Context) ([]string, error) {
	platform := runtime.GOOS + "-" + runtime.GOARCH
	name := s.Toolchain(platform)
	if name == "" {
		return nil, nil
	}
	if _, err := s.download(ctx, toolchain+"@v0.0.1-"+name+"."+platform, []string{"GOTOOLCHAIN=local"}); err != nil {
		return nil, err
	}
	return []string{"GOTOOLCHAIN=" + name}, nil
}

// Download returns the folder of a module "PATH@VERSION" in the module cache, and downloads it if missing. A module
// that has no recorded sum, or another one, is an error.
func (s Sums) Download(ctx context.Context, at string) (dir string, err error) {
	dir, err = s.download(ctx, at, nil)
	if err == nil || !strings.Contains(err.Error(), " requires go ") {
		return dir, err
	}
	env, envErr := s.Env(ctx)
	if envErr != nil || len(env) == 0 {
		return "", cmp.Or(envErr, err)
	}
	return s.download(ctx, at, env)
}

func (s Sums) download(ctx context.Context, at string, env []string) (dir string, err error) {
	want := s.Of(at)
	if want == "" {
		return "", Differs(at, "no recorded sum", "")
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", at)
	cmd.Dir = os.TempDir() // outside any module, so that the current checkout has no influence
	cmd.Env = append(os.Environ(), "GO111MODULE=on", "GOWORK=off")
	cmd.Env = append(cmd.Env, env...)
	cmd.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var got struct{ Dir, Sum, Error string }
	if jsonErr := json.Unmarshal(out, &got); jsonErr == nil && got.Error != "" {
		err = errors.New(got.Error)
	} else if err != nil && stderr.Len() > 0 {
		err = errors.New(strings.TrimSpace(stderr.String()))
	}
	if err == nil && got.Dir == "" {
		err = errors.New("the go command returned no folder")
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", &lab.Error{Exit: lab.ExitFailed, Code: "no_module", Message: "module " + at + " was not downloaded", Err: err}
	}
	if got.Sum != want {
		return "", Differs(at, want, got.Sum)
	}
	return got.Dir, nil
}

// Differs is the error of a module that is not the recorded one.
func Differs(at, want, got string) error {
	e := &lab.Error{
		Exit: lab.ExitFailed, Code: "module_differs", Message: "module " + at + " does not match the sum recorded in lab",
		Cure: "use another GOPROXY, and remove what came from this one with `go clean -modcache`", Details: []string{"recorded " + want},
	}
	if got != "" {
		e.Details = append(e.Details, "served   "+got)
	}
	return e
}
