// Package httpapi serves the REST API of the purchase path.
package httpapi
