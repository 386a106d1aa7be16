package doctor

import (
	"os"
	"strings"
	"testing"
)

const modeFile = "sys/kernel/mm/transparent_hugepage/enabled"

// virtual returns a machine with a hypervisor whose kernel has a mode.
func virtual(t *testing.T, modes string) *machine {
	t.Helper()
	m := newMachine(t)
	decode(t, engineInfo, &m.Info)
	m.Free = 1 << 40
	write(t, m.path("proc/cpuinfo"), "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n")
	write(t, m.path(modeFile), modes)
	return m
}

func TestHugePages(t *testing.T) {
	for modes, want := range map[string]Status{"[always] madvise never": StatusOK, "always [madvise] never": StatusWarn, "always madvise [never]": StatusWarn, "": ""} {
		if c := virtual(t, modes).doctor().Run(t.Context()).Check(CheckHugePages); c.Status != want || c.Fixable != (want == StatusWarn) || len(c.Found) > 61 {
			t.Errorf("%q: %+v", modes, c)
		}
	}
	m := virtual(t, "always [madvise] never")
	write(t, m.path("proc/cpuinfo"), "flags\t\t: fpu vme lahf_lm\n")
	if c := m.doctor().Run(t.Context()).Check(CheckHugePages); c.Status != "" {
		t.Errorf("not virtual: %+v", c)
	}
	m = virtual(t, "always [madvise] never")
	m.Endpoint = "ssh://elsewhere"
	if c := m.doctor().Run(t.Context()).Check(CheckHugePages); c.Status != "" {
		t.Errorf("an engine elsewhere: %+v", c)
	}
}

func TestFixHugePages(t *testing.T) {
	for _, boots := range []bool{true, false} {
		m := virtual(t, "always [madvise] never")
		if boots {
			write(t, m.path("etc/tmpfiles.d/README"), "")
		}
		if _, err := fix(t, m); err != nil {
			t.Fatal(err)
		}
		if got := read(t, m.path(modeFile)); got != "always" {
			t.Errorf("mode: %s", got)
		}
		conf, err := os.ReadFile(m.path("etc/tmpfiles.d/lab.conf"))
		if boots != (err == nil) || boots && !strings.Contains(string(conf), "w "+m.path(modeFile)+" - - - - always\n") {
			t.Errorf("tmpfiles.d there: %t, and it holds %q, %v", boots, conf, err)
		}
	}
}

func TestFixHugePagesReadOnly(t *testing.T) {
	m := virtual(t, "always [madvise] never")
	r := m.doctor().Run(t.Context())
	if err := os.Remove(m.path(modeFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(m.path(modeFile), 0o755); err != nil { // not writable, even to root
		t.Fatal(err)
	}
	said := ""
	if err := m.doctor().Fix(t.Context(), r, func(line string) { said += line + "\n" }); err != nil || !strings.Contains(said, "not possible here") {
		t.Errorf("%v, said %q", err, said)
	}
}
