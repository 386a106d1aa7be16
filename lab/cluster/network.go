package cluster

import (
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/docker"
)

// EnsureNetwork makes the lab's network where there is none, just as kind would make its own, but labelled as the lab's.
func (k *Kind) EnsureNetwork(ctx context.Context) error {
	found, err := k.HasNetwork(ctx)
	if err != nil || found {
		return err
	}
	return k.makeNetwork(ctx, "")
}

// EnsureSubnet makes the lab's network with IPv4 addresses of a subnet, in the place of one with others that nothing is connected to. Where the subnet is not to be
// had, the network has another one.
func (k *Kind) EnsureSubnet(ctx context.Context, subnet string) error {
	has, err := k.Subnet(ctx)
	if err != nil || has != "" && has == subnet {
		return err
	}
	if err := k.removeNetwork(ctx); err != nil { // somebody else is connected to it
		return k.EnsureNetwork(ctx)
	}
	return k.makeNetwork(ctx, subnet)
}

// Subnet is that of the IPv4 addresses of the lab's network; empty where there is none.
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

// makeNetwork makes the lab's network; with a subnet, if it can be had.
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
	const attempts = 5 // kind's own number
	for attempt := range int32(attempts) {
		if err = create("--ipv6", "--subnet", ulaSubnet(name, attempt)); err == nil || !overlaps(err) {
			break
		}
	}
	if noIPv6(err) {
		err = create()
	}
	if err != nil {
		return fmt.Errorf("network %s: %w", name, err)
	}
	return nil
}

// RemoveNetwork removes the lab's network, with what was connected to it by hand cut off, and does nothing where there is none.
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

// removeNetwork removes a network that nothing is connected to.
func (k *Kind) removeNetwork(ctx context.Context) error {
	name := lab.NetworkName(k.lab)
	if _, err := k.docker.Output(ctx, nil, "network", "rm", name); err != nil && !docker.NotFound(err) {
		return fmt.Errorf("network %s: %w", name, err)
	}
	return nil
}

// disconnectGuests disconnects containers that were made for other networks and connected to the lab's by hand, as nodes of existing clusters are.
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

// HasNetwork reports whether the lab's network exists; one of its name that is not the lab's is an error.
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
			Exit: lab.ExitFailed, Code: "not_ours", Message: fmt.Sprintf("docker network %s exists and was not made by lab", name),
			Cure: "choose another --name, or remove it: docker network rm " + name,
		}
	}
	return true, nil
}

// ulaSubnet is a network of fc00::/8 that follows from the name, as kind has it: Docker has no pool of
// IPv6 addresses to choose from.
func ulaSubnet(name string, attempt int32) string {
	sum := sha1.Sum(binary.LittleEndian.AppendUint32([]byte(name), uint32(attempt)))
	ip := [16]byte{0: 0xfc}
	copy(ip[2:8], sum[2:8])
	return netip.PrefixFrom(netip.AddrFrom16(ip), 64).String()
}

func overlaps(err error) bool {
	return docker.Said(err, "Pool overlaps with other one") || docker.Said(err, "networks have overlapping")
}

// noIPv6 reports whether Docker could not set up IPv6: switched off, missing in the kernel, or without ip6tables (https://github.com/kubernetes-sigs/kind/issues/1544).
func noIPv6(err error) bool { return docker.Said(err, "ip6tables") || docker.Said(err, "IPv6") }
