package cluster

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// certificatesEnd returns when the certificates of a cluster end: kubeadm issues them together with the one in lab's kubeconfig. It is zero if unknown.
func certificatesEnd(kubeconfig string) time.Time {
	cfg, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return time.Time{}
	}
	var end time.Time
	for _, user := range cfg.AuthInfos {
		block, _ := pem.Decode(user.ClientCertificateData)
		if block == nil {
			continue
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && (end.IsZero() || c.NotAfter.Before(end)) {
			end = c.NotAfter
		}
	}
	return end
}
