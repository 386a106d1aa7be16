package lab

import "testing"

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{"3.5": "3.5", "v3.5.7": "3.5.7", "1.35.0": "1.35.0", "3": "", "3.5.": "", "3.5.7-rc1": "", "03.5": "", "latest": "", "": "", "3.5.7\n": ""} {
		if got, ok := WantedVersion(text); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v", text, got, ok)
		}
	}
	for _, c := range []struct {
		wanted, version string
		fits            bool
	}{
		{"3.5", "v3.5.7", true}, {"3.5", "3.5.0", true}, {"3.5.7", "v3.5.7", true}, {"3.5.7", "3.5.8", false}, {"3.5", "3.50.1", false}, {"3.50", "3.5.0", false}, {"3.5", "", false},
	} {
		if Fits(c.wanted, c.version) != c.fits {
			t.Errorf("%s fits %s: %v", c.version, c.wanted, !c.fits)
		}
	}
	if c := (Cluster{Kubernetes: "1.35.8"}); c.KubernetesVersion() != "1.35" || (Cluster{}).KubernetesVersion() != KubernetesVersion {
		t.Errorf("%s, %s", c.KubernetesVersion(), Cluster{}.KubernetesVersion())
	}
}
