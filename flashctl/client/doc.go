// Package client speaks the REST interface of a running system, as a buyer, a merchant or an operator would.
package client
