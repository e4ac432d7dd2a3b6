"""An experiment's runs -> tables, figures and one page."""
