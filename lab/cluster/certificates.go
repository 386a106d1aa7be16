package cluster

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"time"

	"homelab/lab"
	"homelab/lab/docker"

	"k8s.io/client-go/tools/clientcmd"
)

// validity of the certificates that kubeadm issues: nine years are less than the ten of its authority. kubeadm's own default is one year, also in a snapshot.
const validity = "78840h0m0s"

// readCertificates fills in when the certificates of a cluster end, which kubeadm issues together with the one in lab's kubeconfig, and whether they can be renewed:
// no certificate outlives its authority.
func readCertificates(s *lab.ClusterState, kubeconfig string, now time.Time) {
	cfg, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return
	}
	var end, authority time.Time
	for _, user := range cfg.AuthInfos {
		end = firstEnd(end, user.ClientCertificateData)
	}
	for _, cluster := range cfg.Clusters {
		authority = firstEnd(authority, cluster.CertificateAuthorityData)
	}
	if !authority.IsZero() && authority.Before(end) {
		end = authority
	}
	s.CertificatesEnd, s.Renew = end, ""
	if authority.IsZero() || authority.Sub(end) > lab.CertificatesSoon {
		s.Renew = s.Ending(now)
	}
}

// firstEnd returns the earlier one of a time, zero for none, and the end of a certificate in PEM.
func firstEnd(end time.Time, text []byte) time.Time {
	block, _ := pem.Decode(text)
	if block == nil {
		return end
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil || !end.IsZero() && end.Before(c.NotAfter) {
		return end
	}
	return c.NotAfter
}

// Ending returns the clusters of a lab's kubeconfigs whose certificates have expired or soon will. It contacts no cluster.
func Ending(labName, dir string, now time.Time) ([]lab.ClusterState, error) {
	files, err := Kubeconfigs(labName, dir)
	if err != nil {
		return nil, err
	}
	var ending []lab.ClusterState
	for _, f := range files {
		s := lab.ClusterState{Name: f.Cluster}
		if f.Made {
			readCertificates(&s, f.Path, now)
		}
		if s.Ending(now) != "" {
			ending = append(ending, s)
		}
	}
	return ending, nil
}

// renew renews the certificates of a running cluster that have expired or soon will, whether or not its API answers. The objects, the authority and the keys of
// accounts stay, so that credentials of the engines stay valid. Each admin.conf is written last: if it is new, all else is.
func (k *Kind) renew(ctx context.Context, name string, all []docker.Container, p lab.Progress) error {
	var s lab.ClusterState
	readCertificates(&s, k.Kubeconfig(name), time.Now())
	var planes, nodes, stale []docker.Container
	for _, n := range all {
		if n.Labels[kindRoleLabel] == loadBalancer {
			continue
		}
		if nodes = append(nodes, n); n.Labels[kindRoleLabel] == controlPlane {
			planes = append(planes, n)
		}
		old, err := k.kubeletEnds(ctx, n)
		if err != nil {
			return err
		}
		if old {
			stale = append(stale, n)
		}
	}
	if s.Renew != "" {
		stale = nodes
	}
	if len(stale) == 0 || len(planes) == 0 {
		return nil
	}
	run := func(n docker.Container, stdin []byte, script string, args ...string) ([]byte, error) {
		out, err := k.docker.Exec(ctx, n.ID, bytes.NewReader(stdin), append([]string{"sh", "-euc", script, "sh"}, args...)...)
		if err != nil {
			return nil, fmt.Errorf("renewing certificates in %s: %w", n.Name, err)
		}
		return out, nil
	}
	p("renewing certificates")
	for _, n := range stale {
		text, err := run(planes[0], nil, kubeadmSettings+kubeletKubeconfig, n.Name)
		if err == nil {
			_, err = run(n, text, replaceKubelet)
		}
		if err != nil {
			return err
		}
	}
	if s.Renew == "" {
		return nil
	}
	for _, n := range planes {
		if _, err := run(n, nil, kubeadmSettings+renewServers); err != nil {
			return err
		}
	}
	for _, n := range planes {
		if _, err := run(n, nil, kubeadmSettings+renewAdmin); err != nil {
			return err
		}
	}
	if err := k.writeKubeconfig(name); err != nil {
		return err
	}
	if readCertificates(&s, k.Kubeconfig(name), time.Now()); s.Renew != "" {
		return fmt.Errorf("renewed, and yet %s", s.Renew)
	}
	return nil
}

// kubeletEnds reports whether a kubelet's client certificate, which it renews itself while it runs, has expired or soon will. One that it has not renewed yet was
// issued with those of the cluster.
func (k *Kind) kubeletEnds(ctx context.Context, n docker.Container) (bool, error) {
	const file = "/var/lib/kubelet/pki/kubelet-client-current.pem" // a link
	text, err := k.docker.Exec(ctx, n.ID, nil, "sh", "-c", "if [ -e "+file+" ]; then cat "+file+"; fi")
	if err != nil {
		return false, fmt.Errorf("reading %s of %s: %w", filepath.Base(file), n.Name, err)
	}
	s := lab.ClusterState{CertificatesEnd: firstEnd(time.Time{}, text)}
	return s.Ended(time.Now()), nil
}

// Scripts in a node. kubeadm reads kind's configuration, and not the one in the API, which may not answer; versions before v1beta4 renew for one year.
const (
	kubeadmSettings = `settings=/run/lab-kubeadm.conf
if grep -q '^apiVersion: kubeadm.k8s.io/v1beta4$' /kind/kubeadm.conf; then
	sed -e '/^certificateValidityPeriod:/d' -e 's/^kind: ClusterConfiguration$/&\ncertificateValidityPeriod: ` + validity + `/' /kind/kubeadm.conf >$settings
else
	cat /kind/kubeadm.conf >$settings
fi
`
	kubeletKubeconfig = `kubeadm kubeconfig user --config $settings --client-name "system:node:$1" --org system:nodes --validity-period ` + validity + "\n"
	replaceKubelet    = `umask 077
cat >/etc/kubernetes/kubelet.conf.new
mv /etc/kubernetes/kubelet.conf.new /etc/kubernetes/kubelet.conf
rm -f /var/lib/kubelet/pki/kubelet-client-*.pem /var/lib/kubelet/pki/kubelet.crt /var/lib/kubelet/pki/kubelet.key
systemctl reset-failed kubelet || true
systemctl restart kubelet
`
	// The kubelet starts again what is stopped, which then reads its new certificate.
	renewServers = `names="apiserver apiserver-etcd-client apiserver-kubelet-client etcd-healthcheck-client etcd-peer etcd-server front-proxy-client controller-manager.conf scheduler.conf"
if [ -e /etc/kubernetes/super-admin.conf ]; then names="$names super-admin.conf"; fi
for name in $names; do kubeadm certs renew $name --config $settings; done
for name in etcd kube-apiserver kube-controller-manager kube-scheduler; do
	for id in $(crictl ps --quiet --label io.kubernetes.pod.namespace=kube-system --name "^$name\$"); do crictl stop --timeout 20 $id; done
done
`
	renewAdmin = "kubeadm certs renew admin.conf --config $settings\n"
)
