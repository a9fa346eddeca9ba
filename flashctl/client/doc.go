// Package client calls the REST API of a running system as a buyer, a merchant or an operator.
package client
