package engine

// Marks is a change of a cluster's registration: labels and annotations to set, nil to remove. What is not named stays.
type Marks struct {
	Labels      map[string]*string
	Annotations map[string]*string
}
