package cluster

import (
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/docker"
)

// EnsureNetwork creates the lab's network if missing, configured like kind's but labelled as the lab's.
func (k *Kind) EnsureNetwork(ctx context.Context) error {
	found, err := k.HasNetwork(ctx)
	if err != nil || found {
		return err
	}
	return k.makeNetwork(ctx, "")
}

// EnsureSubnet ensures that the lab's network has the IPv4 subnet, replacing a network with no containers. If the subnet is unavailable, another one is used.
func (k *Kind) EnsureSubnet(ctx context.Context, subnet string) error {
	has, err := k.Subnet(ctx)
	if err != nil || has != "" && has == subnet {
		return err
	}
	if err := k.removeNetwork(ctx); err != nil { // in use by someone else
		return k.EnsureNetwork(ctx)
	}
	return k.makeNetwork(ctx, subnet)
}

// Subnet returns the IPv4 subnet of the lab's network, or "" without one.
func (k *Kind) Subnet(ctx context.Context) (string, error) {
	found, err := k.HasNetwork(ctx)
	if err != nil || !found {
		return "", err
	}
	out, err := k.docker.Output(ctx, nil, "network", "inspect", "--format", "{{range .IPAM.Config}}{{println .Subnet}}{{end}}", lab.NetworkName(k.lab))
	if err != nil {
		return "", err
	}
	for _, subnet := range strings.Fields(string(out)) {
		if p, err := netip.ParsePrefix(subnet); err == nil && p.Addr().Is4() {
			return subnet, nil
		}
	}
	return "", nil
}

// makeNetwork creates the lab's network, with the subnet if available.
func (k *Kind) makeNetwork(ctx context.Context, subnet string) error {
	name := lab.NetworkName(k.lab)
	mtu, err := k.docker.Output(ctx, nil, "network", "inspect", "bridge", "--format", `{{index .Options "com.docker.network.driver.mtu"}}`)
	if err != nil && !docker.NotFound(err) {
		return fmt.Errorf("network bridge: %w", err)
	}
	args := []string{"network", "create", "--driver=bridge", "--opt", "com.docker.network.bridge.enable_ip_masquerade=true"}
	if m := strings.TrimSpace(string(mtu)); m != "" {
		args = append(args, "--opt", "com.docker.network.driver.mtu="+m)
	}
	args = append(args, docker.Labels(map[string]string{lab.LabelName: k.lab, lab.LabelPart: "network"})...)
	create := func(more ...string) error {
		_, err := k.docker.Output(ctx, nil, append(append(slices.Clone(args), more...), name)...)
		return err
	}
	if subnet != "" {
		if err := create("--ipv6", "--subnet", ulaSubnet(name, 0), "--subnet", subnet); err == nil {
			return nil
		}
		if err := create("--subnet", subnet); err == nil {
			return nil
		}
	}
	const attempts = 5 // as in kind
	for attempt := range int32(attempts) {
		if err = create("--ipv6", "--subnet", ulaSubnet(name, attempt)); err == nil || !errors.Is(err, docker.ErrOverlaps) {
			break
		}
	}
	if errors.Is(err, docker.ErrNoIPv6) {
		err = create()
	}
	if err != nil {
		return fmt.Errorf("network %s: %w", name, err)
	}
	return nil
}

// RemoveNetwork disconnects manually connected containers and removes the lab's network. A missing network is not an error.
func (k *Kind) RemoveNetwork(ctx context.Context) error {
	found, err := k.HasNetwork(ctx)
	if err != nil || !found {
		return err
	}
	if err := k.disconnectGuests(ctx); err != nil {
		return err
	}
	return k.removeNetwork(ctx)
}

// removeNetwork removes a network without containers.
func (k *Kind) removeNetwork(ctx context.Context) error {
	name := lab.NetworkName(k.lab)
	if _, err := k.docker.Output(ctx, nil, "network", "rm", name); err != nil && !docker.NotFound(err) {
		return fmt.Errorf("network %s: %w", name, err)
	}
	return nil
}

// disconnectGuests disconnects containers of other networks that were connected manually, such as nodes of existing clusters.
func (k *Kind) disconnectGuests(ctx context.Context) error {
	network := lab.NetworkName(k.lab)
	list, err := k.docker.Containers(ctx, "network="+network)
	if err != nil {
		return err
	}
	for _, c := range list {
		if c.Network == network || c.Labels[lab.LabelName] == k.lab {
			continue
		}
		if _, err := k.docker.Output(ctx, nil, "network", "disconnect", "--force", network, c.ID); err != nil && !docker.NotFound(err) {
			return fmt.Errorf("network %s: %w", network, err)
		}
	}
	return nil
}

// HasNetwork reports whether the lab's network exists; a network of that name without the lab's label is an error.
func (k *Kind) HasNetwork(ctx context.Context) (bool, error) {
	name := lab.NetworkName(k.lab)
	out, err := k.docker.Output(ctx, nil, "network", "inspect", name)
	if docker.NotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("network %s: %w", name, err)
	}
	var nets []struct{ Labels map[string]string }
	if err := json.Unmarshal(out, &nets); err != nil {
		return false, fmt.Errorf("network %s: %w", name, err)
	}
	if len(nets) != 1 || nets[0].Labels[lab.LabelName] != k.lab {
		return false, &lab.Error{
			Exit: lab.ExitFailed, Code: "not_ours", Message: fmt.Sprintf("docker network %s exists and was not created by lab", name),
			Cure: "choose another --name, or remove it: docker network rm " + lab.Quote(name),
		}
	}
	return true, nil
}

// ulaSubnet derives an fc00::/8 subnet from the name, as kind does: Docker has no IPv6 address pool.
func ulaSubnet(name string, attempt int32) string {
	sum := sha1.Sum(binary.LittleEndian.AppendUint32([]byte(name), uint32(attempt)))
	ip := [16]byte{0: 0xfc}
	copy(ip[2:8], sum[2:8])
	return netip.PrefixFrom(netip.AddrFrom16(ip), 64).String()
}
