"""The frame of every page: authentication, navigation, forms and the tray."""
