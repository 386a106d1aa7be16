package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"homelab/lab"
	"homelab/lab/docker"
)

// ending writes a kubeconfig whose certificate, and that of its authority, end at a time.
func ending(t *testing.T, end, authority time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificate := func(end time.Time) []byte {
		c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end}
		der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	cfg := clientcmdapi.NewConfig()
	cfg.AuthInfos["me"] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate(end)}
	cfg.Clusters["it"] = &clientcmdapi.Cluster{CertificateAuthorityData: certificate(authority)}
	file := filepath.Join(t.TempDir(), "dev.yaml")
	if err := clientcmd.WriteToFile(*cfg, file); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCertificatesEnd(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	const day = 24 * time.Hour
	for _, c := range []struct {
		in, authority time.Duration
		want          string
		renew         bool
	}{
		{-time.Hour, 3000 * day, "its certificates expired on ", true},
		{20 * day, 3000 * day, "its certificates expire on ", true},
		{40 * day, 3000 * day, "", false},
		{20 * day, 20 * day, "its certificates expire on ", false},
		{3000 * day, 20 * day, "its certificates expire on ", false},
		{20 * day, 49 * day, "its certificates expire on ", false},
	} {
		var s lab.ClusterState
		readCertificates(&s, ending(t, now.Add(c.in), now.Add(c.authority)), now)
		if !s.CertificatesEnd.Equal(now.Add(min(c.in, c.authority))) {
			t.Errorf("%s: %s", c.in, s.CertificatesEnd)
		}
		got := s.Ending(now)
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") || s.Ended(now) != (got != "") {
			t.Errorf("%s: %q", c.in, got)
		}
		if s.Renew != "" != c.renew || c.renew && s.Renew != got || strings.Contains(s.EndingCure(), "--recreate") == c.renew {
			t.Errorf("%s: renew %q, cure %q", c.in, s.Renew, s.EndingCure())
		}
	}
	var s lab.ClusterState
	if readCertificates(&s, filepath.Join(t.TempDir(), "none"), now); !s.CertificatesEnd.IsZero() || s.Ending(now) != "" || s.Renew != "" {
		t.Errorf("without kubeconfig: %+v", s)
	}
}

// Ending asks no cluster, and says nothing about attached ones, whose kubeconfig has a context of its owner's.
func TestEndingOfKubeconfigs(t *testing.T) {
	file := ending(t, time.Now(), time.Now().AddDate(1, 0, 0))
	dir := filepath.Dir(file)
	theirs, err := clientcmd.LoadFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	theirs.CurrentContext = "theirs"
	if err := clientcmd.WriteToFile(*theirs, filepath.Join(dir, "edge.yaml")); err != nil {
		t.Fatal(err)
	}
	list, err := Ending("demo", dir, time.Now())
	if err != nil || len(list) != 1 || list[0].Name != "dev" || list[0].Renew == "" {
		t.Errorf("%+v, %v", list, err)
	}
}

// A cluster whose certificates are good is not touched, and a kubelet's that ended while its node was off is replaced, also on a worker.
func TestRenewKubelet(t *testing.T) {
	file := ending(t, time.Now().AddDate(1, 0, 0), time.Now().AddDate(2, 0, 0))
	cfg, err := clientcmd.LoadFromFile(ending(t, time.Now(), time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, text []byte, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), text, mode); err != nil {
			t.Fatal(err)
		}
	}
	write("docker", []byte("#!/bin/sh\necho \"$*\" >>"+dir+"/calls\ncase \"$*\" in\n*worker*kubelet-client-current*) cat "+dir+"/old 2>/dev/null || true ;;\n*'kubeconfig user'*) echo credentials ;;\n*kubelet.conf.new*) cat >"+dir+"/got ;;\nesac\n"), 0o755)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	k := &Kind{docker: docker.WithWrapper(""), lab: "demo", dir: filepath.Dir(file)}
	node := func(name, role string) docker.Container {
		return docker.Container{ID: name, Name: name, Labels: map[string]string{kindRoleLabel: role}}
	}
	nodes := []docker.Container{node("plane", controlPlane), node("balancer", loadBalancer), node("worker", "worker")}
	calls := func() string {
		if err := k.renew(t.Context(), "dev", nodes, func(string) {}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "calls"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := calls(); strings.Contains(got, "kubeadm") || strings.Contains(got, "balancer") {
		t.Errorf("good certificates:\n%s", got)
	}
	write("old", cfg.AuthInfos["me"].ClientCertificateData, 0o600)
	if got := calls(); !strings.Contains(got, "kubeadm kubeconfig user") || strings.Contains(got, "certs renew") {
		t.Errorf("ended kubelet:\n%s", got)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "got")); err != nil || string(got) != "credentials\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// Certificates last nine years, unless the user's patch, which comes later, says otherwise.
func TestCertificateValidity(t *testing.T) {
	cfg, err := config("demo", Host{}, specOf("kubeadmConfigPatches: [\"kind: ClusterConfiguration\\ncertificateValidityPeriod: 1h0m0s\\n\"]"))
	if err != nil {
		t.Fatal(err)
	}
	ours := slices.IndexFunc(cfg.KubeadmConfigPatches, func(p string) bool {
		return strings.HasPrefix(p, "apiVersion: kubeadm.k8s.io/v1beta4\n") && strings.Contains(p, "certificateValidityPeriod: 78840h0m0s")
	})
	theirs := slices.IndexFunc(cfg.KubeadmConfigPatches, func(p string) bool { return strings.Contains(p, "1h0m0s") })
	if ours < 0 || theirs < ours {
		t.Errorf("%q", cfg.KubeadmConfigPatches)
	}
}
