// Command order runs the order service.
package main

import (
	"flashsale.internal/pkg/command"
	"flashsale.internal/services/order"
)

func main() {
	command.Main(command.Spec{Name: "order", Serve: serve, Migrate: command.Migrate(order.Migrations), CheckConfig: checkConfig})
}
