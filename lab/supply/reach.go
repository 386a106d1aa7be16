package supply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"homelab/lab"
)

// reachTimeout is the timeout per host.
const reachTimeout = 3 * time.Second

// Unreachable returns the chart and Git repositories that are not reachable, with the reasons. Any response of a host
// counts; each host is contacted once.
func Unreachable(ctx context.Context, repositories []string) map[string]error {
	var mu sync.Mutex
	hosts := map[string]error{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	var asked []string
	for _, r := range repositories {
		scheme, host := lab.HostOf(r)
		key := scheme + " " + host
		if slices.Contains(asked, key) {
			continue
		}
		asked = append(asked, key)
		group.Go(func() error {
			err := reach(ctx, scheme, host)
			mu.Lock()
			defer mu.Unlock()
			hosts[key] = err
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	out := map[string]error{}
	for _, r := range repositories {
		scheme, host := lab.HostOf(r)
		if err := hosts[scheme+" "+host]; err != nil {
			out[r] = err
		}
	}
	return out
}

// errSSH is the reason for SSH addresses, whether their host answers or not.
var errSSH = errors.New("lab does not provide the engine with SSH keys")

func reach(ctx context.Context, scheme, host string) error {
	if scheme == "ssh" {
		return errSSH
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, scheme+"://"+host+"/", nil)
	if err == nil {
		var res *http.Response
		if res, err = http.DefaultTransport.RoundTrip(req); err == nil {
			err = res.Body.Close()
		}
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s sends nothing", host)
	}
	return fmt.Errorf("%s does not answer", host)
}
