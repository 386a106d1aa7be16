package entrance

import "encoding/json"

// Cluster is what one cluster has: its objects as their API returns them, restricted to the fields that matter here.
type Cluster struct {
	Name       string
	Services   []Service
	Ingresses  []Ingress
	HTTPRoutes []HTTPRoute
}

// Meta is an object's metadata.
type Meta struct {
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	Created     string            `json:"creationTimestamp"` // RFC 3339 in UTC, which sorts as text
	Deleted     string            `json:"deletionTimestamp,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Status is the status of a Service or an Ingress.
type Status struct {
	LoadBalancer struct {
		Ingress []struct {
			IP       string `json:"ip,omitempty"`
			Hostname string `json:"hostname,omitempty"`
		} `json:"ingress,omitempty"`
	} `json:"loadBalancer"`
}

// Service is a core/v1 Service.
type Service struct {
	Metadata Meta `json:"metadata"`
	Spec     struct {
		Type      string `json:"type"`
		ClusterIP string `json:"clusterIP"`
		Class     string `json:"loadBalancerClass,omitempty"`
		Ports     []Port `json:"ports"`
	} `json:"spec"`
	Status Status `json:"status"`
}

// Port is a port of a Service.
type Port struct {
	Name     string `json:"name,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	App      string `json:"appProtocol,omitempty"`
	Port     int    `json:"port"`
	Node     int    `json:"nodePort,omitempty"`
}

// Ingress is a networking.k8s.io/v1 Ingress.
type Ingress struct {
	Metadata Meta `json:"metadata"`
	Spec     struct {
		Default *IngressBackend `json:"defaultBackend,omitempty"`
		Rules   []struct {
			Host string `json:"host,omitempty"`
			HTTP *struct {
				Paths []struct {
					Path    string         `json:"path,omitempty"`
					Type    string         `json:"pathType"`
					Backend IngressBackend `json:"backend"`
				} `json:"paths"`
			} `json:"http,omitempty"`
		} `json:"rules,omitempty"`
	} `json:"spec"`
	Status Status `json:"status"`
}

// IngressBackend is the backend of an Ingress' path.
type IngressBackend struct {
	Service *struct {
		Name string `json:"name"`
		Port struct {
			Name   string `json:"name,omitempty"`
			Number int    `json:"number,omitempty"`
		} `json:"port"`
	} `json:"service,omitempty"`
}

// HTTPRoute is a gateway.networking.k8s.io/v1 HTTPRoute. What the door does not do is raw.
type HTTPRoute struct {
	Metadata Meta `json:"metadata"`
	Spec     struct {
		Hostnames []string `json:"hostnames,omitempty"`
		Rules     []struct {
			Matches []struct {
				Path *struct {
					Type  string `json:"type,omitempty"`
					Value string `json:"value,omitempty"`
				} `json:"path,omitempty"`
				Headers json.RawMessage `json:"headers,omitempty"`
				Query   json.RawMessage `json:"queryParams,omitempty"`
				Method  string          `json:"method,omitempty"`
			} `json:"matches,omitempty"`
			Filters  []json.RawMessage `json:"filters,omitempty"`
			Backends []struct {
				Group     string            `json:"group,omitempty"`
				Kind      string            `json:"kind,omitempty"`
				Name      string            `json:"name"`
				Namespace string            `json:"namespace,omitempty"`
				Port      int               `json:"port,omitempty"`
				Weight    *int              `json:"weight,omitempty"`
				Filters   []json.RawMessage `json:"filters,omitempty"`
			} `json:"backendRefs,omitempty"`
		} `json:"rules,omitempty"`
	} `json:"spec"`
}
