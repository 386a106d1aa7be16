//go:build unix

package doctor

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// trim runs the trimmed runtime around a program that prints its arguments, one per line, each followed by a bar.
func trim(t testing.TB, dir string, args ...string) (printed string) {
	t.Helper()
	inner, script := filepath.Join(dir, "inner"), filepath.Join(dir, "lab-runc")
	for path, text := range map[string]string{
		inner:  "#!/bin/sh\nprintf '%s|\\n' \"$@\"\n",
		script: strings.ReplaceAll(trimmedRuntime, "@RUNC@", shellQuote(inner)),
	} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(script, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// spec returns an OCI runtime configuration as written by Docker, with the capabilities in every set.
func spec(t testing.TB, caps []string, args ...string) map[string]any {
	t.Helper()
	process := map[string]any{
		"args": args, "env": args,
		"capabilities": map[string]any{"bounding": caps, "effective": caps, "permitted": caps, "inheritable": []string{}, "ambient": nil},
	}
	return map[string]any{
		"ociVersion": "1.0.2", "process": process, "annotations": map[string]string{"CAP_SYS_RESOURCE": "CAP_SYS_RESOURCE"},
		"linux": map[string]any{"seccomp": map[string]any{"syscalls": []any{map[string]any{"includes": []string{"CAP_SYS_RESOURCE", "x"}}}}},
	}
}

func compact(t testing.TB, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// trimmed checks the runtime's change to a document, as a bundle and as the process of an exec.
func trimmed(t testing.TB, had, want []string, args ...string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a bundle")
	config, process := filepath.Join(dir, "config.json"), filepath.Join(dir, "runc-process123")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	before, after := spec(t, had, args...), spec(t, want, args...)
	for _, c := range []struct {
		file          string
		before, after any
		args          []string
	}{
		{config, before, after, []string{"--root", "/r", "create", "--bundle", dir, "--pid-file", "p", "id"}},
		{config, before, after, []string{"run", "--bundle=" + dir, "id"}},
		{process, before["process"], after["process"], []string{"exec", "--process", process, "--detach", "id"}},
		{process, before["process"], after["process"], []string{"exec", "-p", process, "id"}},
	} {
		if err := os.WriteFile(c.file, []byte(compact(t, c.before)), 0o600); err != nil {
			t.Fatal(err)
		}
		printed := trim(t, dir, c.args...)
		if diff := cmp.Diff(strings.Join(c.args, "|\n")+"|\n", printed); diff != "" {
			t.Errorf("arguments: %s", diff)
		}
		got, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(compact(t, c.after), string(got)); diff != "" {
			t.Errorf("%q of %q: %s", c.args, had, diff)
		}
		if info, err := os.Stat(c.file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%q: mode %v, %v", c.args, info.Mode(), err)
		}
	}
}

func TestTrimmedRuntime(t *testing.T) {
	for _, had := range [][]string{
		{"CAP_SYS_RESOURCE"},
		{"CAP_SYS_RESOURCE", "CAP_CHOWN"},
		{"CAP_CHOWN", "CAP_SYS_RESOURCE"},
		{"CAP_CHOWN", "CAP_SYS_RESOURCE", "CAP_SYS_ADMIN"},
		{"CAP_CHOWN"},
		{},
	} {
		want := slices.DeleteFunc(slices.Clone(had), func(c string) bool { return c == "CAP_SYS_RESOURCE" })
		trimmed(t, had, want, "capsh", "CAP_SYS_RESOURCE", `"CAP_SYS_RESOURCE",`, `"capabilities":{"bounding":["CAP_SYS_RESOURCE"]}`, `,]`, "a\nb")
	}
}

func TestTrimmedRuntimeIndented(t *testing.T) {
	dir := t.TempDir()
	text, err := json.MarshalIndent(spec(t, []string{"CAP_CHOWN", "CAP_SYS_RESOURCE"}), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "config.json"), string(text))
	trim(t, dir, "create", "--bundle", dir, "id")
	var got any
	decode(t, read(t, filepath.Join(dir, "config.json")), &got)
	if diff := cmp.Diff(compact(t, spec(t, []string{"CAP_CHOWN"})), compact(t, got)); diff != "" {
		t.Error(diff)
	}
}

func TestTrimmedRuntimeOtherCommands(t *testing.T) {
	for _, args := range [][]string{{"--version"}, {"kill", "id", "9"}, {"create", "--bundle", "/nonexistent", "id"}, {"state", "an id", ""}} {
		if printed := trim(t, t.TempDir(), args...); printed != strings.Join(args, "|\n")+"|\n" {
			t.Errorf("%q became %q", args, printed)
		}
	}
}

// TestDockerWrapper runs the docker command of lab's own PATH around one that prints its arguments and copies its input.
func TestDockerWrapper(t *testing.T) {
	dir := t.TempDir()
	own, real := filepath.Join(dir, "its own", "docker"), filepath.Join(dir, "bin", "docker")
	write(t, own, strings.ReplaceAll(dockerWrapper, "@DIR@", shellQuote(filepath.Dir(own))))
	write(t, real, "#!/bin/sh\nif [ $1 = info ]; then cat >/dev/null; echo \"$RUNTIMES\"; exit; fi\nprintf '%s|' \"$PATH\" \"$@\"; cat\nexit 7\n")
	for _, file := range []string{own, real} {
		if err := os.Chmod(file, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const has, lacks = `{"lab-runc":{},"runc":{}}`, `{"runc":{}}`
	for _, c := range []struct{ runtimes, args, want string }{
		{has, "run --name n --privileged image", "run --runtime lab-runc --name n --privileged image"},
		{has, "create --privileged image", "create --runtime lab-runc --privileged image"},
		{lacks, "run --name n --privileged image", "run --name n --privileged image"},
		{"", "run --privileged image", "run --privileged image"},
		{has, "run --name n image", "run --name n image"},
		{has, "exec --privileged n sh", "exec --privileged n sh"},
		{has, "ps", "ps"},
	} {
		for _, before := range []string{"", filepath.Dir(own) + ":", "/nonexistent:" + filepath.Dir(own) + ":" + filepath.Dir(own) + ":"} {
			cmd := exec.Command(own, strings.Fields(c.args)...)
			cmd.Env = []string{"PATH=" + before + filepath.Dir(real) + ":/bin:/usr/bin", "RUNTIMES=" + c.runtimes}
			cmd.Stdin = strings.NewReader("input")
			out, err := cmd.Output()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 7 {
				t.Fatalf("PATH %s: %v", before, err)
			}
			path, printed, _ := strings.Cut(string(out), "|")
			if want := strings.ReplaceAll(c.want, " ", "|") + "|input"; printed != want || strings.Contains(path, "its own") {
				t.Errorf("PATH %s: docker got %s and %s, want %s", before, path, printed, want)
			}
		}
	}
}

// The container's command never changes.
func FuzzTrimmedRuntime(f *testing.F) {
	for _, seed := range []string{`"CAP_SYS_RESOURCE"`, `\"CAP_SYS_RESOURCE",`, `"capabilities":{"a":["CAP_SYS_RESOURCE"],`, `["CAP_SYS_RESOURCE"]`, "\x00\n,]", "é\\"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		trimmed(t, []string{"CAP_A", "CAP_SYS_RESOURCE", "CAP_B"}, []string{"CAP_A", "CAP_B"}, arg, "CAP_SYS_RESOURCE")
	})
}

// Registering the runtime keeps all other keys of daemon.json.
func FuzzDaemonConfig(f *testing.F) {
	for _, seed := range []string{``, `{}`, `{"mtu":1400,"n":1e400}`, `{"runtimes":null,"a":{"b":[1,2,{}]}}`, `{"runtimes":{"x":{"path":"y"}},"default-runtime":"x"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		config, err := parseDaemonConfig([]byte(text))
		if err != nil {
			return
		}
		merged, err := config.with(runtimeName, "/lab-runc", nil)
		if err != nil {
			return // runtimes is not an object
		}
		got, err := parseDaemonConfig(merged)
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range config {
			if key == "runtimes" {
				continue
			}
			if compact(t, value) != compact(t, got[key]) {
				t.Errorf("%q: %s became %s", key, value, got[key])
			}
		}
		if len(got) > len(config)+1 || got.defaultRuntime() != config.defaultRuntime() {
			t.Errorf("%s became %s", text, merged)
		}
		if had, _ := config.runtimes(); had[runtimeName] == nil && config.defaultRuntime() != runtimeName && config["runtimes"] == nil {
			back, err := got.without(runtimeName, config, got)
			if err != nil || !sameJSON(back, []byte(compact(t, config))) {
				t.Errorf("%s became %s, and then %s, %v", text, merged, back, err)
			}
		}
		had, _ := config.runtimes()
		has, _ := got.runtimes()
		for name, value := range had {
			if name != runtimeName && compact(t, value) != compact(t, has[name]) {
				t.Errorf("runtime %q: %s became %s", name, value, has[name])
			}
		}
	})
}

func TestTrueProgram(t *testing.T) {
	program, err := trueProgram(runtime.GOARCH)
	if err != nil {
		t.Skip(err)
	}
	if _, err := os.Stat("/proc/self/exe"); err != nil {
		t.Skip("needs Linux")
	}
	path := filepath.Join(t.TempDir(), "true")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := trueProgram("riscv64"); err == nil {
		t.Error("no error for an unknown machine")
	}
}
