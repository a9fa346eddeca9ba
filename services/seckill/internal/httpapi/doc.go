// Package httpapi is the REST surface of the purchase path.
package httpapi
