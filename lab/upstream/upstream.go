// Package upstream gives tests the files of Go modules that lab builds from but does not import.
package upstream

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
)

// Dir returns the folder of a module, as in "example.com/mod@v1.2.3". The go command downloads it if needed; without a network the test is skipped, but fails in CI.
func Dir(t testing.TB, module string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir() // no module of ours, whose sums would be extended
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN="+toolchain(t))
	out, err := cmd.Output()
	var m struct{ Dir, Error string }
	if jerr := json.Unmarshal(out, &m); jerr == nil && m.Dir != "" {
		return m.Dir
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s cannot be downloaded: %v %s", module, err, m.Error)
	}
	t.Skipf("%s cannot be downloaded: %v %s", module, err, m.Error)
	return ""
}

var goVersion = regexp.MustCompile(`(?m)^go: ([0-9.]+)$`)

// toolchain is the go command with which lab builds modules, which may require a newer one than lab itself.
func toolchain(t testing.TB) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	data, err := os.ReadFile(filepath.Join(filepath.Dir(here), "..", "supply", "source", "recipes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	m := goVersion.FindSubmatch(data)
	if m == nil {
		return "go1.27.3" // which the newest module asked for requires
	}
	return "go" + string(m[1])
}
