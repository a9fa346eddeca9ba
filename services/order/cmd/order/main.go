// Command order runs the order service.
package main

import (
	"slices"

	"flashsale.internal/pkg/command"
	"flashsale.internal/services/order"
)

func main() {
	command.Main(command.Spec{
		Name: "order", Serve: serve, CheckConfig: checkConfig, Connect: connect,
		Migrate: command.Migrate(order.Migrations, order.Migrate),
		Await:   command.AwaitMigrations(order.Migrations),
		More:    slices.Concat(contactCommands(), paymentCommands()),
	})
}
