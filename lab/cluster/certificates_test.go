package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"homelab/lab"
)

// ending writes a kubeconfig whose certificate ends at a time.
func ending(t *testing.T, end time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cfg := clientcmdapi.NewConfig()
	cfg.AuthInfos["me"] = &clientcmdapi.AuthInfo{ClientCertificateData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	file := filepath.Join(t.TempDir(), "dev.yaml")
	if err := clientcmd.WriteToFile(*cfg, file); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCertificatesEnd(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	for _, c := range []struct {
		in   time.Duration
		want string
	}{
		{-time.Hour, "its certificates ended on "}, {20 * 24 * time.Hour, "its certificates end on "}, {40 * 24 * time.Hour, ""},
	} {
		end := certificatesEnd(ending(t, now.Add(c.in)))
		if !end.Equal(now.Add(c.in)) {
			t.Errorf("%s: %s", c.in, end)
		}
		if got := (lab.ClusterState{CertificatesEnd: end}).Ending(now); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q", c.in, got)
		}
	}
	if end := certificatesEnd(filepath.Join(t.TempDir(), "none")); !end.IsZero() || (lab.ClusterState{}).Ending(now) != "" {
		t.Errorf("without kubeconfig: %s", end)
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
