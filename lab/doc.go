// Package lab defines the types shared by all packages: the estate, its parts, their observed state, and errors. It imports only the standard library, so
// that every other package can import it.
package lab
